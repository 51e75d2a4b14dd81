// A backlog of changes to more tables than one transaction of the sink has room to lock.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { ConnectorRequest } from "../../../src/connector/connector.ts";
import { LiveRun } from "../../support/runtime/live-run.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

const tables = 200;

let source: PostgresServer;
let sink: PostgresServer;

beforeAll(async () => {
  // Some 700 locks: 140 tables need as many.
  const fewLocks = { max_connections: 25, max_wal_senders: 2, max_locks_per_transaction: 10 };
  [source, sink] = await Promise.all([
    PostgresServer.start({ settings: { fsync: "off" } }),
    PostgresServer.start({ settings: { fsync: "off", ...fewLocks } }),
  ]);
  const each = Array.from(
    { length: tables },
    (_, i) => `create table t${i} (id int primary key, v text); insert into t${i} values (1, 'a')`,
  );
  await source.query(each.join(";"));
  await sink.query("create database sink");
});
afterAll(() => Promise.all([source, sink].map((server) => server[Symbol.asyncDispose]())));

test("transactions over more tables than the sink can lock at once arrive", async () => {
  const request: ConnectorRequest = {
    id: "orders",
    source: {
      postgres: { connection: source.connection(), replication_type: { logical_replication: {} } },
    },
    sink: { postgres: { connection: { ...sink.connection(), database: "sink" } } },
  };
  await using run = LiveRun.start(request);
  await run.untilRealtime();
  await run.stop();
  await using client = await source.connect();
  for (let i = 0; i < tables; i++) await client.query(`update t${i} set v = 'b'`);
  await run.restart();
  // A query of all tables would take the locks that the run needs.
  await waitFor("the last transaction", async () => {
    const [last] = await sink.query<{ v: string }>(`select v from t${tables - 1}`, "sink");
    return last?.v === "b" || run.failures.length > 0;
  });
  await run.stop();
  expect(run.failures).toEqual([]);
  const all = Array.from({ length: tables }, (_, i) => `select v from t${i}`).join(" union all ");
  const values = await sink.query(`select v, count(*)::int as n from (${all}) t group by v`, "sink");
  expect(values).toEqual([{ v: "b", n: tables }]);
});
