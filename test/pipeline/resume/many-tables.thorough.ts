// Work on one table after the other does not read all tables for each of them: with thousands the stream would hardly go on.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { dropSlot, resume } from "../../support/pipeline/resumption.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const count = 15;
const each = (sql: (name: string) => string) =>
  Array.from({ length: count }, (_, at) => sql(`t${at}`)).join("; ");

async function streaming(name: string): Promise<PipelineRig> {
  const source = each(
    (table) => `create table ${table} (id int primary key); insert into ${table} values (1)`,
  );
  const rig = await PipelineRig.streaming(server, name, { source });
  await rig.expectEqual();
  return rig;
}

test("tables are proved after one read of all", async () => {
  await using rig = await streaming("proved");
  await rig.stop();
  await rig.source(each((table) => `insert into ${table} values (2)`));
  await dropSlot(rig);
  const before = rig.tableReads;
  expect(await resume(rig)).toEqual({ whole: [], rows: count });
  expect(rig.tableReads - before).toBeLessThan(8);
  await rig.stop();
}, 120_000);

test("a table that is dropped at the sink is copied, and the others are proved", async () => {
  await using rig = await streaming("dropped");
  await rig.stop();
  await rig.source(each((table) => `insert into ${table} values (2)`));
  await dropSlot(rig);
  rig.beforeComparison = async (table) => {
    if (table !== "t3") return;
    rig.beforeComparison = async () => {};
    await rig.sink("drop table t3");
  };
  expect((await resume(rig)).rows).toBe(count - 1);
  await rig.expectEqual();
  await rig.stop();
}, 120_000);

test("tables are compared after one read of all; what is altered meanwhile is read, and what is dropped at the sink copied", async () => {
  await using rig = await streaming("compared");
  await rig.verify("t0");
  const before = rig.tableReads;
  for (let at = 1; at < count; at++)
    expect(await rig.verify(`t${at}`)).toMatchObject({ rows: 1, missing: 0 });
  expect(rig.tableReads - before).toBeLessThan(4);
  await rig.source("alter table t1 add v int default 7; create table late (id int primary key)");
  expect(await rig.verify("t1")).toMatchObject({ rows: 1, missing: 0, changed: 0 });
  expect(await rig.verify("late")).toMatchObject({ rows: 0, extra: 0 });
  await rig.sink("drop table t2");
  expect(await rig.verify("t2")).toMatchObject({ rows: 1, missing: 0 });
  await rig.expectEqual();
  await rig.stop();
}, 120_000);
