// The lock on a state database: one holder, which keeps it over a dropped connection unless another is faster.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { acquireServiceLock } from "../../../src/state/server/service-lock.ts";
import { stateConnection } from "../../../src/state/server/state-connection.ts";
import type { StateConnection } from "../../../src/state/server/state-session.ts";
import { PostgresServer } from "../../support/postgres-server.ts";
import { TcpProxy } from "../../support/tcp-proxy.ts";
import { waitFor } from "../../support/wait-for.ts";

const bounds = { acquireMs: 300, watchMs: 50, answerMs: 1_000 };
let server: PostgresServer;
let config: StateConnection;

beforeAll(async () => {
  server = await PostgresServer.start();
  config = await stateConnection(`postgres://postgres@127.0.0.1:${server.port}/postgres`);
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

const holderPids = () =>
  server.query<{ pid: number }>("select pid from pg_locks where locktype = 'advisory' and granted");

/** Drops the holder's connection. With `first`, another session takes the lock at the same moment. */
async function cut(first: boolean): Promise<AsyncDisposable> {
  const client = await server.connect();
  await client.query(
    "select pg_terminate_backend(pid, 5000) from pg_locks where locktype = 'advisory' and granted",
  );
  if (first) await client.query("select pg_advisory_lock(x'6d696c6c'::int, x'72616365'::int)");
  return client;
}

test("a second holder is refused, with the first one's session, until the first is gone", async () => {
  {
    await using _first = await acquireServiceLock(config, bounds);
    const [holder] = await holderPids();
    const error = await acquireServiceLock(config, bounds).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "invalid_setting" });
    expect(String(error)).toContain(`pid ${holder?.pid}`);
  }
  await using _second = await acquireServiceLock(config, bounds);
});

test("a holder with a dropped connection acquires the lock again", async () => {
  await using lock = await acquireServiceLock(config, bounds);
  const [before] = await holderPids();
  await using _client = await cut(false);
  await waitFor("another session holds it", async () => {
    const [now] = await holderPids();
    return now !== undefined && now.pid !== before?.pid;
  });
  expect(lock.lost.aborted).toBe(false);
});

test("a holder whose connection is dropped during queries acquires the lock again, each time", async () => {
  for (let n = 0; n < 10; n++) {
    await using lock = await acquireServiceLock(config, { ...bounds, watchMs: 1 });
    const [before] = await holderPids();
    await Bun.sleep(n);
    await using _client = await cut(false);
    await waitFor("another session holds it", async () => {
      const [now] = await holderPids();
      return now !== undefined && now.pid !== before?.pid;
    });
    expect(lock.lost.aborted).toBe(false);
  }
});

test("a holder that is too late knows that it has lost the lock", async () => {
  await using lock = await acquireServiceLock(config, { ...bounds, watchMs: 1_000 });
  await using _client = await cut(true);
  await waitFor("lost", () => lock.lost.aborted);
  expect(lock.lost.reason).toMatchObject({ code: "invalid_setting" });
});

test("a holder whose session falls silent terminates that session at the server and acquires the lock again", async () => {
  await using proxy = await TcpProxy.start(server.port);
  const throughProxy = await stateConnection(`postgres://postgres@127.0.0.1:${proxy.port}/postgres`);
  await using lock = await acquireServiceLock(throughProxy, bounds);
  const [before] = await holderPids();
  proxy.strand();
  await waitFor("another session holds it", async () => {
    const [now] = await holderPids();
    return now !== undefined && now.pid !== before?.pid;
  });
  expect(lock.lost.aborted).toBe(false);
});
