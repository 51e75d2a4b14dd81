import { afterAll, beforeAll, expect, test } from "bun:test";
import { connectPostgres, destroyClient } from "../../src/connection/postgres-client.ts";
import { SessionPool } from "../../src/connection/session-pool.ts";
import { PostgresServer } from "../../src/demo/postgres-server.ts";
import { fullConnection } from "../support/connector-config.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

const open = () =>
  connectPostgres(fullConnection(server.connection()), "copy", AbortSignal.timeout(30_000), "sink");
const sessions = async () =>
  (await server.query("select from pg_stat_activity where application_name = 'millrace copy'")).length;

test("a session is used again, and none is left", async () => {
  {
    await using pool = new SessionPool(open);
    const [a, b] = [await pool.take(), await pool.take()];
    expect(a).not.toBe(b);
    await pool.giveBack(a);
    expect(await pool.take()).toBe(a);
    await pool.giveBack(a);
    await pool.giveBack(b);
    expect(await sessions()).toBe(2);
  }
  await waitFor("the sessions are closed", async () => (await sessions()) === 0);
});

test("a session that broke while it rested is not handed out, and one that rests for long is closed", async () => {
  await using pool = new SessionPool(open, 200);
  const broken = await pool.take();
  await pool.giveBack(broken);
  const ended = new Promise((resolve) => broken.once("end", resolve));
  destroyClient(broken);
  await ended;
  const other = await pool.take();
  expect(other).not.toBe(broken);
  expect((await other.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  await pool.giveBack(other);
  await waitFor("the resting session is closed", async () => (await sessions()) === 0);
  const last = await pool.take();
  await using done = new AsyncDisposableStack();
  done.defer(() => last.end());
  expect(last).not.toBe(other);
});
