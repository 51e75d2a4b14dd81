// Partitions that are published as their root: somebody may lock one, and each may be announced by itself.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const leaves = [1, 2, 3, 4];
const sql = `create table p (id int primary key, v text) partition by list (id);
  ${leaves.map((i) => `create table p${i} partition of p for values in (${i}, ${i + 10}, ${i + 20})`).join("; ")};
  create table t (id int primary key)`;

let count = 0;
const streaming = (source: RigOptions["source"], pace: RigOptions["pace"] = {}) =>
  PipelineRig.streaming(
    server,
    `leaves${++count}`,
    { source: sql },
    { isSupervised: true, pace, source: { partitions_as_root: true, ...source } },
  );

test("a partition that somebody holds locked holds up no other table, whatever is made meanwhile", async () => {
  await using rig = await streaming({}, { tableCheckMs: 200 });
  await using holder = await server.connect(rig.sourceDatabase);
  await holder.query("begin; lock table p3 in access exclusive mode");
  for (const id of [1, 2, 3]) {
    await rig.source(`create table made${id} (id int primary key); insert into t values (${id})`);
    const isThere = async () => (await rig.sink(`select from t where id = ${id}`)).length === 1;
    await waitFor("the row", isThere, { timeoutMs: 10_000 });
    await Bun.sleep(500);
  }
  await holder.query("rollback");
  await rig.expectEqual();
  await rig.stop();
});

test("partitions whose rows come as their root's, with identity full and rows known by hashes: no run after the other", async () => {
  await using rig = await streaming({ keyless_table_strategy: { dedup_by_row_hash: {} } });
  for (const i of leaves) await rig.source(`alter table p${i} replica identity full`);
  for (const round of [0, 10, 20])
    for (const i of leaves) await rig.source(`insert into p values (${i + round}, 'v')`);
  await rig.expectEqual();
  const runs = () =>
    rig.phases.filter(({ phase, health }) => phase.name === "realtime" && health.kind === "start").length;
  const before = runs();
  for (const i of leaves) await rig.source(`update p set v = 'w' where id = ${i}`);
  await rig.expectEqual();
  expect(runs()).toBe(before);
  await rig.stop();
});
