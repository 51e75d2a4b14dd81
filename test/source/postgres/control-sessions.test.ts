import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { watchSession } from "../../../src/connection/session-watch.ts";
import { ControlSessions } from "../../../src/source/postgres/control-sessions.ts";
import { fullConnection } from "../../support/connector-config.ts";
import { PostgresServer } from "../../support/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

const signal = new AbortController().signal;
const sessionsOf = (max_pool_size: number) =>
  new ControlSessions(fullConnection(server.connection(), { max_pool_size }), signal);

const standing = async () =>
  (await server.query("select from pg_stat_activity where application_name = 'millrace control'")).length;

describe("where connections are bounded", () => {
  test("two sessions are asked at once, and everyone gets an answer", async () => {
    await using sessions = sessionsOf(8);
    let most = 0;
    const ask = (i: number) =>
      sessions.with(async (client) => {
        await client.query("select pg_sleep(0.02)");
        most = Math.max(most, await standing());
        return i;
      });
    const asked = Array.from({ length: 8 }, (_, i) => i);
    expect(await Promise.all(asked.map(ask))).toEqual(asked);
    expect(most).toBe(2);
  });

  test("of those who may wait for long one waits at once, and the others are answered meanwhile", async () => {
    await using sessions = sessionsOf(8);
    const held = Promise.withResolvers<void>();
    const waiting = [1, 2].map((i) =>
      sessions.withForLong(async () => {
        await held.promise;
        return i;
      }, signal),
    );
    await waitFor("one to wait", async () => (await standing()) === 1);
    const { rows } = await sessions.with((client) => client.query("select 1 as one"));
    expect(rows).toEqual([{ one: 1 }]);
    expect(await standing()).toBe(2);
    held.resolve();
    expect(await Promise.all(waiting)).toEqual([1, 2]);
  });

  test("a look after another session waits for one of the two", async () => {
    await using sessions = sessionsOf(8);
    await using client = await server.connect();
    const held = Promise.withResolvers<void>();
    const busy = [1, 2].map(() => sessions.with(() => held.promise));
    await waitFor("both to be busy", async () => (await standing()) === 2);
    const looked = Promise.withResolvers<void>();
    using _watch = watchSession({
      ...{ ...sessions.watched(client), firstLookMs: 0 },
      beside: async () => looked.resolve(),
    });
    await Bun.sleep(200);
    expect(await standing()).toBe(2);
    held.resolve();
    await Promise.all([...busy, looked.promise]);
  });

  test("for a look, sessions that rest make room", async () => {
    await using sessions = sessionsOf(8);
    await using client = await server.connect();
    await Promise.all([1, 2].map(() => sessions.with((asked) => asked.query("select pg_sleep(0.02)"))));
    expect(await standing()).toBe(2);
    const seen = Promise.withResolvers<number>();
    using _watch = watchSession({
      ...{ ...sessions.watched(client), firstLookMs: 0 },
      beside: async () => seen.resolve(await standing()),
    });
    expect(await seen.promise).toBe(1);
  });

  test("who waits for a turn goes with the signal", async () => {
    await using sessions = sessionsOf(8);
    const held = Promise.withResolvers<void>();
    const busy = [1, 2].map(() => sessions.with(() => held.promise));
    const stop = new AbortController();
    const waiting = sessions.with(async () => {}, stop.signal);
    stop.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
    held.resolve();
    await Promise.all(busy);
  });
});

test("where nothing bounds them, nobody waits", async () => {
  await using sessions = sessionsOf(0);
  const held = Promise.withResolvers<void>();
  const busy = [1, 2, 3].map(() => sessions.withForLong(() => held.promise, signal));
  await waitFor("all three to be busy", async () => (await standing()) === 3);
  held.resolve();
  await Promise.all(busy);
  expect(sessions.looks).toBeUndefined();
});
