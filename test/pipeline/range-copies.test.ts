// Large tables are copied in ranges of their pages: several at once, and what is copied stays so, whatever dies. Here tables of a few
// hundred pages stand for large ones.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { PostgresServer } from "../../src/demo/postgres-server.ts";
import { moveRows, movingRows } from "../support/moving-rows.ts";
import { PipelineRig, type RigOptions } from "../support/pipeline-rig.ts";

setDefaultTimeout(60_000);

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const rows = 1500;
const pace = { dividedFromBytes: 1, rangeBytes: 300_000, pointHeldMs: 60_000 };

const create = (options: RigOptions = {}) =>
  PipelineRig.create(server, `ranges${++count}`, { copyPace: pace, ...options });

const copyRecords =
  "select table_name, is_merged, first_lsn is not null as is_mixed from millrace.table_copy order by 1";
const sideTables = "select relname from pg_class where relname like 'copy\\_%' and relkind = 'r'";

test("ranges of a table are copied side by side, as of one point, while its rows change, and become the table together", async () => {
  await using rig = await create();
  await rig.source(`${movingRows("m", rows)}; create table small (a int primary key); insert into small values (1);
    create table keyless as select g from generate_series(1, 3000) g; alter table keyless replica identity full`);
  await rig.sink("alter default privileges in schema public grant select on tables to public");
  {
    await using _moving = await moveRows(rig, "m", rows);
    rig.start();
    await rig.untilRealtime();
  }
  const ranges = rig.copies.filter(({ table, range }) => table === "m" && range !== null);
  expect(ranges.length).toBeGreaterThan(10);
  expect(ranges.filter(({ range }) => range?.to === null).length).toBe(1);
  expect(new Set(ranges.map(({ lsn }) => lsn)).size).toBe(1);
  expect(rig.copies.filter(({ table }) => table === "keyless")).toMatchObject([{ range: null }]);
  expect(await rig.sink(copyRecords)).toMatchObject([
    { table_name: "keyless" },
    { table_name: "m", is_merged: false, is_mixed: false },
    { table_name: "small" },
  ]);
  await rig.expectEqual();
  expect(await rig.sink(sideTables)).toEqual([]);
  const key = "select indisprimary from pg_index where indrelid = 'm'::regclass";
  expect(await rig.sink(key)).toEqual([{ indisprimary: true }]);
  const granted = "select has_table_privilege('pg_monitor', 'm', 'select') as yes";
  expect(await rig.sink(granted)).toEqual([{ yes: true }]);
});

test("ranges go over the rows that a table at the sink has, also where it has other types and columns of its own", async () => {
  await using rig = await create();
  await rig.source(
    `${movingRows("m", rows)}; create table u (id int primary key, n int); insert into u select g, g from generate_series(1, 3000) g`,
  );
  await rig.sink(`create table m (id int primary key, note text, n text, text varchar(600), far text);
    insert into m values (7, 'kept', 'old', 'old', 'old'), (9999, 'its own', '1', '1', '1');
    create table u (id int primary key, n int unique)`);
  {
    await using _moving = await moveRows(rig, "m", rows);
    rig.start();
    await rig.untilRealtime();
  }
  expect(rig.copies.filter(({ table }) => table === "m").length).toBeGreaterThan(10);
  // Values of another unique index could be there twice for a while.
  expect(rig.copies.filter(({ table }) => table === "u")).toMatchObject([{ range: null }]);
  const all = "select id, n::int, text::text, far from m where id < 9999 order by id";
  await rig.expectSame(all);
  expect(await rig.sink("select note from m where id in (7, 9999) order by id")).toEqual([
    { note: "kept" },
    { note: "its own" },
  ]);
});
