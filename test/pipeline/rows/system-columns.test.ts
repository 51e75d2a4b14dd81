// Columns that say where a row comes from, in copies and in the stream.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { logicalReplication } from "../../support/api/connector-config.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const all = { synced_at: {}, lsn: {}, op: { encoding: "Char", snapshot_as_read: true } } as const;

test.each(["binary", "text"] as const)("each row has them, as %s", async (form) => {
  await using pair = await PipelineRig.create(server, `sys_${form}`, {
    source: { system_columns: all },
    isSupervised: true,
    forms: form === "binary" ? ["binary", "text"] : ["text"],
  });
  await pair.source(`create table t (id int primary key, v text, big text); alter table t alter big set storage external;
    create table k (a int, b text); alter table k replica identity full;
    insert into t values (1, 'a', repeat('x', 9000)), (2, 'b', null); insert into k values (1, 'x'), (1, 'x'), (2, null)`);
  const before = new Date();
  pair.start();
  await pair.untilRealtime();
  expect(pair.streamForms).toEqual([form]);
  await pair.source(`insert into t values (3, 'c', null); update t set v = 'new' where id = 1; delete from t where id = 2;
    update t set id = 30 where id = 3; update k set b = 'y' where ctid = '(0,1)'; delete from k where a = 2`);
  await pair.source("insert into t values (4, 'd', null); insert into t values (5)");
  await pair.expectEqual();
  const rows = await pair.sink<{ id: number; op: string; place: string; at: string }>(
    "select id, _sm_op as op, _sm_lsn::text as place, _sm_synced_at::text as at from t order by id",
  );
  expect(rows.map(({ id, op }) => [id, op])).toEqual([
    [1, "u"],
    [4, "c"],
    [5, "c"],
    [30, "u"],
  ]);
  expect(rows.every(({ at }) => Math.abs(Date.parse(at) - before.getTime()) < 120_000)).toBe(true);
  expect(await pair.sink<object>("select count(*)::int as n from t where _sm_lsn > '0/1'")).toEqual([
    { n: 4 },
  ]);
  expect(
    await pair.sink<object>(
      "select (select _sm_lsn from t where id = 4) > (select _sm_lsn from t where id = 1) as later",
    ),
  ).toEqual([{ later: true }]);
  expect(await pair.sink<object>("select b, _sm_op as op from k order by 1")).toEqual([
    { b: "x", op: "r" },
    { b: "y", op: "u" },
  ]);
  await pair.source("alter table t add n int default 7");
  await pair.source("insert into t values (6)");
  await pair.expectEqual();
  await pair.stop();
  pair.reconfigure({ system_columns: { op: { encoding: "Int", snapshot_as_read: false } } });
  pair.start();
  const ops = async () =>
    (await pair.sink<{ op: string }>("select distinct _sm_op as op from t")).map(({ op }) => op);
  await waitFor("the new copy", async () => (await ops()).join() === "1");
  await pair.stop();
});

test("beside a row hash, by a publication that somebody else has made", async () => {
  await using pair = await PipelineRig.create(server, "sys_hash", {
    source: {
      system_columns: { op: { encoding: "String", snapshot_as_read: false }, lsn: {} },
      keyless_table_strategy: { dedup_by_row_hash: {} },
      replication_type: { logical_replication: logicalReplication("every") },
    },
  });
  await pair.source(`create table k (a int, b text); alter table k replica identity full; insert into k values (1, 'x'), (2, 'z');
    create publication every for all tables; create table none (); create table own (id int primary key, _sm_op text)`);
  pair.start();
  expect(await pair.ended()).toMatchObject({ code: "column_conflict" });
  await pair.source("alter table own rename _sm_op to op");
  pair.start();
  await pair.untilRealtime();
  await pair.source(
    "insert into k values (1, 'x'), (3, 'new'); update k set b = 'zz' where a = 2; insert into none default values; insert into own values (1, 'mine')",
  );
  await waitFor("the last row", async () => (await pair.sink("select from own")).length === 1);
  expect(await pair.sink<object>("select a, b, _sm_op as op from k order by a")).toEqual([
    { a: 1, b: "x", op: "insert" },
    { a: 2, b: "zz", op: "update" },
    { a: 3, b: "new", op: "insert" },
  ]);
  expect(await pair.sink<object>("select _sm_op as op, _sm_lsn is not null as has from none")).toEqual([
    { op: "insert", has: true },
  ]);
  await pair.stop();
});
