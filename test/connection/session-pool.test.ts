import { afterAll, beforeAll, expect, test } from "bun:test";
import { connectPostgres, destroyClient } from "../../src/connection/postgres-client.ts";
import { SessionPool, withPooledSession } from "../../src/connection/session-pool.ts";
import { fullConnection } from "../support/api/connector-config.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

const open = (signal: AbortSignal) =>
  connectPostgres(fullConnection(server.connection()), "copy", signal, "sink");
const signal = new AbortController().signal;
const sessions = async () =>
  (await server.query("select from pg_stat_activity where application_name = 'millrace copy'")).length;

test("a session is reused, and none remains open", async () => {
  {
    await using pool = new SessionPool(open);
    const [a, b] = [await pool.take(signal), await pool.take(signal)];
    expect(a).not.toBe(b);
    await pool.giveBack(a);
    expect(await pool.take(signal)).toBe(a);
    await pool.giveBack(a);
    await pool.giveBack(b);
    expect(await sessions()).toBe(2);
  }
  await waitFor("the sessions are closed", async () => (await sessions()) === 0);
});

test("a session that broke while idle is not handed out, and one that is idle for long is closed", async () => {
  await using pool = new SessionPool(open, 200);
  const broken = await pool.take(signal);
  await pool.giveBack(broken);
  const ended = new Promise((resolve) => broken.once("end", resolve));
  destroyClient(broken);
  await ended;
  const other = await pool.take(signal);
  expect(other).not.toBe(broken);
  expect((await other.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  await pool.giveBack(other);
  await waitFor("the idle session is closed", async () => (await sessions()) === 0);
  const last = await pool.take(signal);
  await using done = new AsyncDisposableStack();
  done.defer(() => last.end());
  expect(last).not.toBe(other);
});

test("a new session opens only after an expired one has closed", async () => {
  const standing = new Set<object>();
  let most = 0;
  const counting = async (until: AbortSignal) => {
    most = Math.max(most, standing.size);
    const client = await open(until);
    standing.add(client);
    client.once("end", () => standing.delete(client));
    return client;
  };
  const idleMs = 20;
  await using pool = new SessionPool(counting, idleMs);
  for (let i = 0; i < 20; i++) {
    const client = await pool.take(signal);
    await pool.giveBack(client);
    // After the idle timer, and before the server has received Terminate.
    await Bun.sleep(idleMs);
  }
  expect(most).toBe(0);
});

test("work that fails or is aborted closes its session, and the next work gets another", async () => {
  await using pool = new SessionPool(open);
  const pid = (stop = signal) =>
    withPooledSession(pool, stop, "sink", async (client) => {
      const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
      return rows[0]?.pid;
    });
  const first = await pid();
  expect(await pid()).toBe(first);
  const failing = withPooledSession(pool, signal, "sink", (client) => client.query("begin; select 1 / 0"));
  await expect(failing).rejects.toMatchObject({ cause: { code: "22012" } });
  const second = await pid();
  expect(second).not.toBe(first);
  const stop = new AbortController();
  const waiting = withPooledSession(pool, stop.signal, "sink", (client) =>
    client.query("select pg_sleep(60)"),
  );
  stop.abort(new Error("enough"));
  await expect(waiting).rejects.toThrow("enough");
  await expect(pid(AbortSignal.abort(new Error("late")))).rejects.toThrow("late");
  expect(await pid()).not.toBe(second);
});

test("work that is done while the signal fires counts as aborted: its session is gone", async () => {
  await using pool = new SessionPool(open);
  const controller = new AbortController();
  const work = withPooledSession(pool, controller.signal, "sink", async (client) => {
    await client.query("begin");
    controller.abort(new Error("too late"));
    return client;
  });
  expect(await work.catch((error: Error) => error.message)).toBe("too late");
  await waitFor("the session is closed", async () => (await sessions()) === 0);
  const next = await pool.take(signal);
  expect((await next.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  await pool.giveBack(next);
});
