// One session of the state database: what it holds while it lives.

import { heapStats } from "bun:jsc";
import { expect, test } from "bun:test";
import { stateConnection } from "../../../src/state/server/state-connection.ts";
import { StateSession } from "../../../src/state/server/state-session.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

const operations = 2_000;

test("holds nothing of operations that are over", async () => {
  await using server = await PostgresServer.start();
  const connection = await stateConnection(`postgres://postgres@127.0.0.1:${server.port}/postgres`);
  await using session = await StateSession.open(connection, { name: "held", answerMs: 5_000 });
  const promises = () => {
    Bun.gc(true);
    return heapStats().objectTypeCounts.Promise ?? 0;
  };
  await session.run((sql) => sql`select 1`);
  const before = promises();
  for (let i = 0; i < operations; i++) await session.run(async () => i);
  expect(promises() - before).toBeLessThan(operations / 4);
});

test("an operation that runs fails when the session ends", async () => {
  await using server = await PostgresServer.start();
  const connection = await stateConnection(`postgres://postgres@127.0.0.1:${server.port}/postgres`);
  await using session = await StateSession.open(connection, { name: "ended", answerMs: 5_000 });
  const running = session.run(() => new Promise(() => {}));
  session.fail(new Error("it was ended"), 10);
  expect(running).rejects.toThrow("it was ended");
  expect(session.run(async () => 1)).rejects.toThrow("it was ended");
  await running.catch(() => {});
});

test.each([
  ["off", "on"],
  ["remote_apply", "remote_apply"],
])("where the role has synchronous_commit = %s, the state's sessions have %s", async (chosen, expected) => {
  await using server = await PostgresServer.start();
  await server.query(`alter role postgres set synchronous_commit = ${chosen}`);
  const connection = await stateConnection(`postgres://postgres@127.0.0.1:${server.port}/postgres`);
  await using session = await StateSession.open(connection, { name: "durable", answerMs: 5_000 });
  const [row] = await session.run(
    async (sql) => await sql`select current_setting('synchronous_commit') as s`,
  );
  expect(row?.s).toBe(expected);
});
