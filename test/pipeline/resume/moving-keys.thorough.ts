// Rows of a table get other keys, and not all of their values are sent, while it is compared after a lost slot.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { copiedSince, dropSlot, proved } from "../../support/pipeline/resumption.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { slotRelease } from "../../support/servers/slot-release.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const far = (table: string, key: string, rows: number, id: string) =>
  `create table ${table} (id ${key} primary key, n int, far text); alter table ${table} alter far set storage external;
   insert into ${table} select ${id}, 0, repeat(md5(g::text), 100) from generate_series(1, ${rows}) g`;

/** A connector that has copied the table, and has lost its slot. */
async function lost(name: string, source: string, sink = "select 1"): Promise<PipelineRig> {
  const rig = await PipelineRig.streaming(server, name, { source, sink });
  await rig.expectEqual();
  await rig.stop();
  await slotRelease(server, rig.slot);
  return rig;
}

test("a table in which nothing differs is proved at once, and what moved meanwhile is copied where it is incomplete", async () => {
  await using rig = await lost("nothing_differs", far("t", "int", 50, "g"));
  await rig.source("insert into t select 60, 0, repeat('missed', 1000)");
  await dropSlot(rig);
  const held = Promise.withResolvers<void>();
  let comparisons = 0;
  rig.beforeComparison = async () => void comparisons++;
  // Before the comparison, for which the stream waits a moment, and not amid it.
  rig.beforePoint = () => held.promise;
  const from = rig.copies.length;
  rig.resumes = true;
  rig.start();
  await rig.untilRealtime();
  // The row that was missed comes in part first, and then whole: it is the source's, and still known as incomplete.
  await rig.source("update t set n = 1 where id = 60");
  await waitFor(
    "an incomplete row",
    async () => (await rig.sink("select from millrace.owed_row")).length === 1,
  );
  await rig.source("update t set n = 2, far = repeat('whole', 1000) where id = 60");
  await waitFor("the whole row", async () => (await rig.sink("select from t where n = 2")).length === 1);
  rig.beforeSinkRead = async () => {
    rig.beforeSinkRead = async () => {};
    await rig.source("update t set id = 160 where id = 60; update t set id = 101 where id = 1");
    await waitFor(
      "the moves",
      async () => (await rig.sink("select from t where id in (101, 1, 60)")).length === 1,
    );
  };
  held.resolve();
  await proved(rig);
  await rig.expectEqual();
  expect(comparisons).toBe(1);
  expect(copiedSince(rig, from)).toEqual({ whole: [], rows: 2 });
  expect(await rig.sink("select from millrace.owed_row")).toEqual([]);
  await rig.source("update t set n = 3; update t set id = id + 1000");
  await rig.expectEqual();
  await rig.stop();
}, 60_000);

test("a row that moves keeps what the sink's own columns have of it", async () => {
  const source = "create table t (id int primary key, n int); insert into t values (5, 1)";
  const sink = "create table t (id int primary key, n int, note text)";
  await using rig = await PipelineRig.streaming(server, "own_columns", { source, sink });
  await rig.expectSame("select id, n from t");
  await rig.stop();
  await slotRelease(server, rig.slot);
  await rig.sink("update t set note = 'kept'");
  await dropSlot(rig);
  const moved = () => rig.sink<{ id: number; note: string }>("select id, note from t where id = 1005");
  rig.beforeSinkRead = async () => {
    rig.beforeSinkRead = async () => {};
    await rig.source("update t set id = 1005");
    await waitFor("the move", async () => (await moved()).length === 1);
  };
  rig.resumes = true;
  rig.start();
  await rig.untilRealtime();
  await proved(rig);
  expect(await moved()).toEqual([{ id: 1005, note: "kept" }]);
  await rig.stop();
}, 60_000);

test("a row that moves to a key that is equal by its type alone is not lost", async () => {
  const sql = `create extension citext; ${far("c", "public.citext", 20, "'k' || g")}`;
  await using rig = await lost("equal_key", sql, "create extension citext");
  await dropSlot(rig);
  rig.beforeSinkRead = async () => {
    rig.beforeSinkRead = async () => {};
    await rig.source("update c set id = upper(id::text), n = 1 where id = 'k1'");
    await waitFor(
      "the move",
      async () => (await rig.sink("select from c where id::text = 'k1'")).length === 0,
    );
  };
  rig.resumes = true;
  rig.start();
  await rig.untilRealtime();
  await proved(rig);
  await rig.expectEqual();
  await rig.stop();
}, 60_000);
