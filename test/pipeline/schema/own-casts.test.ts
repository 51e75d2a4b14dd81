// Databases whose numbers become texts by themselves, as they did before PostgreSQL 8.3: applications of that age were
// given such casts, and have them still. What concatenates a number without saying so is ambiguous there.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { catalogOf } from "../../support/oracles/history-tables.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

/** Types that the scripts for such applications name, and those that catalogs number their rows by. */
const numbers = ["int2", "int4", "int8", "float4", "float8", "numeric", "oid", "xid", "cid", "tid"];
const casts = numbers.map((type) => `create cast (${type} as text) with inout as implicit;`).join("\n");

const tables = `create schema app;
  create table t (id int primary key, v text, d int generated always as (id * 2) stored);
  create table p (id int primary key, n numeric) partition by range (id);
  create table p1 partition of p for values from (0) to (1000);
  create table h (a bigint, b oid, v text);
  create table app.k (a bigint, b oid, v text);
  insert into h values (1, 2, 'x'), (3, 4, 'y');
  alter table app.k replica identity full;
  insert into t select g, 'v' || g::text from generate_series(1, 500) g;
  insert into p select g, g from generate_series(1, 500) g;
  insert into app.k values (1, 2, 'x')`;

test("copies, the stream, tasks and comparisons where numbers become texts by themselves", async () => {
  await using pair = await PipelineRig.create(server, "casts", {
    source: {
      catalog: catalogOf([{ name: "t", history_enabled: true }]),
      keyless_table_strategy: { dedup_by_row_hash: {} },
    },
  });
  await pair.source(`${casts} ${tables}`);
  await pair.sink(casts);
  pair.start();
  await pair.untilRealtime();
  await pair.source(`update t set v = 'w' where id < 10; delete from p where id = 3; update p set n = 7 where id = 4;
    insert into app.k values (5, 6, 'y'); insert into h values (7, 8, 'z'); create table late (id int primary key); insert into late values (1);
    alter table t add w bigint; update t set w = 5 where id = 20; alter table t alter w type numeric`);
  await pair.expectEqual();
  expect(await pair.snapshot("t", true)).toBeNull();
  await pair.sink("update t set v = 'damaged' where id = 30");
  expect(await pair.verify("t", "Apply")).toMatchObject({ changed: 1, missing: 0, extra: 0 });
  expect(await pair.verify("k", "None", { schema: "app" })).toMatchObject({ changed: 0 });
  await pair.expectEqual();
  await pair.stop();
});
