import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Client } from "pg";
import { watchSession } from "../../../src/connection/session-watch.ts";
import { ControlSessions } from "../../../src/source/postgres/control-sessions.ts";
import { fullConnection } from "../../support/api/connector-config.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

const signal = new AbortController().signal;
const sessionsOf = (max_pool_size: number) =>
  new ControlSessions(fullConnection(server.connection(), { max_pool_size }), signal);

const sessionCount = async () =>
  (await server.query("select from pg_stat_activity where application_name = 'millrace control'")).length;

describe("with a limit on connections", () => {
  test("two sessions run queries at once, and every query gets its result", async () => {
    await using sessions = sessionsOf(8);
    let most = 0;
    const query = (i: number) =>
      sessions.with(async (client) => {
        await client.query("select pg_sleep(0.02)");
        most = Math.max(most, await sessionCount());
        return i;
      });
    const numbers = Array.from({ length: 8 }, (_, i) => i);
    expect(await Promise.all(numbers.map(query))).toEqual(numbers);
    expect(most).toBe(2);
  });

  test("only one long wait runs at once, and short queries run meanwhile", async () => {
    await using sessions = sessionsOf(8);
    const release = Promise.withResolvers<void>();
    const waiting = [1, 2].map((i) =>
      sessions.withKept(async ({ giveBack }) => {
        await release.promise;
        await giveBack();
        return i;
      }, signal),
    );
    await waitFor("one to wait", async () => (await sessionCount()) === 1);
    const { rows } = await sessions.with((client) => client.query("select 1 as one"));
    expect(rows).toEqual([{ one: 1 }]);
    expect(await sessionCount()).toBe(2);
    release.resolve();
    expect(await Promise.all(waiting)).toEqual([1, 2]);
  });

  test("a check of another session waits for one of the two sessions", async () => {
    await using sessions = sessionsOf(8);
    await using client = await server.connect();
    const release = Promise.withResolvers<void>();
    const busy = [1, 2].map(() => sessions.with(() => release.promise));
    await waitFor("both to be busy", async () => (await sessionCount()) === 2);
    const checked = Promise.withResolvers<void>();
    using _watch = watchSession({
      ...sessions.watched(client),
      firstCheckMs: 0,
      onCheck: async () => checked.resolve(),
    });
    await Bun.sleep(200);
    expect(await sessionCount()).toBe(2);
    release.resolve();
    await Promise.all([...busy, checked.promise]);
  });

  test("a check closes idle sessions if needed", async () => {
    await using sessions = sessionsOf(8);
    await using client = await server.connect();
    await Promise.all([1, 2].map(() => sessions.with((other) => other.query("select pg_sleep(0.02)"))));
    expect(await sessionCount()).toBe(2);
    const seen = Promise.withResolvers<number>();
    using _watch = watchSession({
      ...sessions.watched(client),
      firstCheckMs: 0,
      onCheck: async () => seen.resolve(await sessionCount()),
    });
    expect(await seen.promise).toBe(1);
  });

  test("a kept session leaves two for others, and is closed at its end", async () => {
    await using sessions = sessionsOf(8);
    const kept = await sessions.withKept(async (session) => {
      await session.client.query("begin");
      return session;
    }, signal);
    const release = Promise.withResolvers<void>();
    const busy = [1, 2].map(() => sessions.with(() => release.promise));
    await waitFor("two beside it", async () => (await sessionCount()) === 3);
    await kept.giveBack();
    expect(await sessionCount()).toBe(2);
    release.resolve();
    await Promise.all(busy);
  });

  test("the signal ends the wait for a session", async () => {
    await using sessions = sessionsOf(8);
    const release = Promise.withResolvers<void>();
    const busy = [1, 2].map(() => sessions.with(() => release.promise));
    const stop = new AbortController();
    const waiting = sessions.with(async () => {}, stop.signal);
    stop.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
    release.resolve();
    await Promise.all(busy);
  });
});

test("without a limit nobody waits", async () => {
  await using sessions = sessionsOf(0);
  const release = Promise.withResolvers<void>();
  const busy = [1, 2, 3].map(() =>
    sessions.withKept(({ giveBack }) => release.promise.then(giveBack), signal),
  );
  await waitFor("all three to be busy", async () => (await sessionCount()) === 3);
  release.resolve();
  await Promise.all(busy);
  expect(sessions.checkPermits).toBeUndefined();
});

test("without a limit a kept session serves others once it is given back, and one that was lost does not", async () => {
  await using sessions = sessionsOf(0);
  const pidOf = async (client: Client) =>
    (await client.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]!.pid;
  const keep = () =>
    sessions.withKept(async (session) => {
      await session.client.query("begin; set local work_mem = '1MB'");
      return { ...session, pid: await pidOf(session.client) };
    }, signal);
  const kept = await keep();
  expect(await sessions.with(pidOf)).not.toBe(kept.pid);
  await kept.giveBack();
  const again = await Promise.all([sessions.with(pidOf), sessions.with(pidOf)]);
  expect(again).toContain(kept.pid);

  const lost = await keep();
  await server.query(`select pg_terminate_backend(${lost.pid}, 5000)`);
  await lost.giveBack();
  expect(await Promise.all([1, 2, 3].map(() => sessions.with(pidOf)))).not.toContain(lost.pid);
});
