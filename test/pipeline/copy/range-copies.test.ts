// Large tables are copied in ranges of their pages: several at once, and what is copied stays so, whatever dies. Here tables of a few
// hundred pages stand for large ones.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { setTimeout as sleep } from "node:timers/promises";
import { overlap, type PageRange } from "../../../src/change/page-range.ts";
import { moveRows, movingRows } from "../../support/loads/moving-rows.ts";
import { pick } from "../../support/matrix.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { openPoints } from "../../support/servers/open-points.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { vacuum } from "../../support/servers/vacuumed.ts";
import { waitFor } from "../../support/wait-for.ts";

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
const doneRanges =
  "select first_page::int4 as from, next_page::int4 as to from millrace.copied_range order by 1";
const sideTables = "select relname from pg_class where relname like 'copy\\_%\\_%' and relkind = 'r'";

const rangesOf = (rig: PipelineRig, name: string) =>
  rig.copies.flatMap(({ table, part }) => (table === name && part?.kind === "range" ? [part.range] : []));

/** A run that ends when some ranges of a table are copied, and others are left. Returns those that are. */
async function copySome(rig: PipelineRig): Promise<readonly PageRange[]> {
  let done: readonly PageRange[] = [];
  // How many of the calls bring a range is a matter of time.
  for (let tries = 0; tries < 8 && done.length < 2; tries++) {
    rig.start();
    rig.dieAt(36 + 3 * tries);
    await rig.ended();
    done = await rig.sink<PageRange>(doneRanges);
  }
  expect(done.length).toBeGreaterThan(1);
  expect(done.at(-1)?.to).not.toBeNull();
  return done;
}

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
  const ranges = rangesOf(rig, "m");
  expect(ranges.length).toBeGreaterThan(10);
  expect(ranges.filter(({ to }) => to === null).length).toBe(1);
  expect(new Set(rig.copies.map(({ lsn }) => lsn)).size).toBe(1);
  expect(rig.copies.filter(({ table }) => table === "keyless")).toMatchObject([{ part: null }]);
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

test("ranges go over the rows that a table at the sink has, also where it has columns of its own", async () => {
  await using rig = await create();
  const others = ["partial", "computed", "excluding"];
  await rig.source(
    `${movingRows("m", rows)};
    ${["u", "v", ...others].map((name) => `create table ${name} (id int primary key, n int); insert into ${name} select g, g from generate_series(1, 3000) g`).join("; ")}`,
  );
  await rig.sink(`create table m (id int primary key, note text, n int, text text, far text);
    insert into m values (7, 'kept', 0, 'old', 'old'), (9999, 'its own', 1, '1', '1');
    create table u (id int primary key, n int unique);
    create table partial (id int primary key, n int); create unique index on partial (n) where n > 0;
    create table computed (id int primary key, n int); create unique index on computed ((n + 1));
    create table excluding (id int primary key, n int, exclude using btree (n with =));
    create table v (n text, id int primary key)`);
  {
    await using _moving = await moveRows(rig, "m", rows);
    rig.start();
    await rig.untilRealtime();
  }
  expect(rig.copies.filter(({ table }) => table === "m").length).toBeGreaterThan(10);
  // Values of another unique index could be there twice for a while.
  for (const name of ["u", ...others])
    expect(rig.copies.filter(({ table }) => table === name)).toMatchObject([{ part: null }]);
  // Values go into other types as texts.
  expect(rig.copies.filter(({ table }) => table === "v")).toMatchObject([{ part: null }]);
  await rig.expectSame("select id, n, text, far from m where id < 9999 order by id");
  await rig.expectSame("select id, n::int from v order by id");
  expect(await rig.sink("select note from m where id in (7, 9999) order by id")).toEqual([
    { note: "kept" },
    { note: "its own" },
  ]);
});

/** Runs until the stream is reached, dying every so many calls. Returns how often it died, and how many ranges were copied. */
async function copyAmidDeaths(rig: PipelineRig, calls: number): Promise<{ deaths: number; copied: number }> {
  let deaths = 0;
  let copied = 0;
  for (; deaths < 60; deaths++) {
    const done = deaths === 0 ? [] : await rig.sink<PageRange>(doneRanges);
    const before = rangesOf(rig, "m").length;
    rig.start();
    // The first calls of a run look at the tables.
    rig.dieAt(30 + calls);
    const isStreaming = await rig.untilRealtime().then(
      () => true,
      () => false,
    );
    const begun = rangesOf(rig, "m").slice(before);
    copied += begun.length;
    expect(begun.filter((range) => done.some((other) => overlap(range, other)))).toEqual([]);
    if (isStreaming) return { deaths, copied };
  }
  throw new Error("the copy does not get on");
}

const identities = [
  ["default", 1],
  ["full", 2],
] as const;

describe.each(pick(identities, ([identity]) => identity === "default"))(
  "a copy that dies again and again amid changes of its rows, under replica identity %s (%i)",
  (identity, seed) => {
    test("goes on with the ranges that are left, and the sink equals the source", async () => {
      await using rig = await create({ copyPace: { ...pace, rangeBytes: 100_000, pointHeldMs: 50 } });
      await rig.source(movingRows("m", 800, identity));
      {
        await using moving = await moveRows(rig, "m", 800, seed);
        const { deaths } = await copyAmidDeaths(rig, 26);
        expect(deaths).toBeGreaterThan(1);
        // It dies on while the stream brings what lies between the ranges, and rows are copied that none of them has.
        for (let calls = 20; calls < 60; calls += 10) {
          rig.dieAt(calls);
          await rig.ended();
          rig.start();
        }
        rig.dieAt(Number.POSITIVE_INFINITY);
        await waitFor("many changes", () => moving.transactions > 100);
      }
      expect(await rig.sink(copyRecords)).toMatchObject([
        { table_name: "m", is_merged: true, is_mixed: true },
      ]);
      await rig.expectEqual();
      expect(await rig.sink(sideTables)).toEqual([]);
    });
  },
);

test("rows that are in none of the ranges, and of which the stream brings parts, are copied by themselves", async () => {
  await using rig = await create();
  await rig.source(movingRows("m", rows));
  await copySome(rig);
  // Their place is taken by rows from behind, whose values out of line stay where they are.
  await rig.source("delete from m where id <= 30");
  await vacuum((sql) => rig.source(sql), "m");
  await rig.source("update m set n = n + 1 where id between 1400 and 1410");
  await rig.source(
    "update m set id = id + 10000 where id between 1420 and 1424; delete from m where id = 1405",
  );
  rig.start();
  await rig.untilRealtime();
  await rig.expectEqual();
  const keys = rig.copies.flatMap(({ part }) => (part?.kind === "rows" ? part.keys.flat() : []));
  expect(keys).toContain("1400");
  expect(keys).toContain("11424");
  expect(keys.filter((key) => Number(key) < 1400)).toEqual([]);
  expect(await rig.sink("select from millrace.owed_row")).toEqual([]);
  await rig.source("update m set n = n + 1, far = far || 'x' where id in (1400, 11420)");
  await rig.expectEqual();
});

test("rows that were made and removed again around the point of a range that has them are not left over", async () => {
  await using rig = await create();
  await rig.source(movingRows("m", rows));
  await copySome(rig);
  await rig.source("insert into m select g, 0, 'new', 'new' from generate_series(20001, 20005) g");
  const held = Promise.withResolvers<void>();
  rig.copiesHeld = held.promise;
  const before = rig.copies.length;
  rig.start();
  // As of a point: the stream brings both changes in one batch.
  await waitFor("a copy to begin", () => rig.copies.length > before);
  await rig.source("delete from m where id > 20000");
  held.resolve();
  await rig.untilRealtime();
  await rig.expectEqual();
});

test("ranges whose side table another version has made are copied again", async () => {
  await using rig = await create();
  await rig.source(movingRows("m", 1000));
  const done = await copySome(rig);
  const before = rangesOf(rig, "m").length;
  await rig.sink("update millrace.divided_copy set mark = regexp_replace(mark, '^2 ', '')");
  rig.start();
  await rig.untilRealtime();
  expect(rangesOf(rig, "m").slice(before)).toContainEqual(expect.objectContaining({ from: done[0]!.from }));
  await rig.expectEqual();
});

describe("between two ranges", () => {
  const cases: readonly (readonly [
    what: string,
    sql: string,
    isBegunAgain: boolean,
    isForEveryDay: boolean,
  ])[] = [
    ["written anew", "vacuum full m", true, true],
    [
      "emptied and filled again",
      "truncate m; insert into m select g, 1, 'b', 'b' from generate_series(1, 1000) g",
      true,
      false,
    ],
    [
      "given a column",
      "alter table m add column c int default 7; update m set c = 8 where id < 9",
      true,
      true,
    ],
    ["rid of a column", "alter table m drop column n", true, false],
    [
      "given another key",
      "alter table m drop constraint m_pkey; alter table m add primary key (id, n)",
      true,
      false,
    ],
    [
      "dropped, and another made",
      "drop table m; create table m (id int primary key, far text); insert into m select g, repeat('f', 5000) from generate_series(1, 800) g",
      true,
      false,
    ],
    ["left as it was", "update m set n = 5 where id < 300", false, true],
  ];
  const everyday = pick(cases, ([_, _sql, _again, isForEveryDay]) => isForEveryDay);
  test.each(everyday.map(([what, sql, isBegunAgain]) => [what, sql, isBegunAgain] as const))(
    "the table is %s",
    async (_, sql, isBegunAgain) => {
      await using rig = await create({ isSupervised: true });
      await rig.source(movingRows("m", 1000));
      const done = await copySome(rig);
      const before = rangesOf(rig, "m").length;
      await rig.source(sql);
      rig.start();
      await rig.untilRealtime();
      const again = rangesOf(rig, "m")
        .slice(before)
        .filter((range) => done.some((other) => overlap(range, other)));
      expect(again.length > 0).toBe(isBegunAgain);
      await rig.expectEqual();
      expect(await rig.sink(sideTables)).toEqual([]);
    },
  );

  test("the table is dropped, or left out: nothing is left of it", async () => {
    await using rig = await create({ isSupervised: true });
    await rig.source(movingRows("m", 1000));
    await copySome(rig);
    await rig.source("drop table m");
    rig.start();
    await rig.untilRealtime();
    expect(await rig.sink(sideTables)).toEqual([]);
    expect(await rig.sink(doneRanges)).toEqual([]);
  });
});

test("no transaction at the source is open for much longer than a point is held", async () => {
  await using rig = await create({ copyPace: { ...pace, rangeBytes: 40_000, pointHeldMs: 50 } });
  await rig.source(movingRows("m", 2500));
  const begunAt = performance.now();
  rig.start();
  let isCopying = true;
  const copied = rig.untilRealtime().finally(() => {
    isCopying = false;
  });
  let longestMs = 0;
  while (isCopying) {
    const [{ ms = 0 } = {}] = await rig.source<{ ms: number }>(
      "select (extract(epoch from max(now() - xact_start)) * 1000)::float8 as ms from pg_stat_activity where application_name like 'millrace%'",
    );
    longestMs = Math.max(longestMs, ms);
    await sleep(20);
  }
  await copied;
  const tookMs = performance.now() - begunAt;
  expect(new Set(rig.copies.map(({ lsn }) => lsn)).size).toBeGreaterThan(2);
  expect(longestMs).toBeLessThan(tookMs / 2);
  await rig.expectEqual();
});

/** Whether nothing of ours keeps the source from clearing away rows that died before the transaction `xid` began. */
const isFreed = (xid: string) => `
  select bool_and(xmin is null or age(xmin) < age('${xid}'::xid)) as yes from (
    select backend_xmin as xmin from pg_stat_activity where application_name like 'millrace%'
    union all select xmin from pg_replication_slots) held`;
const deadRows = "select n_dead_tup::int4 as rows from pg_stat_user_tables where relname = 'm'";

test("what a range that is open for long keeps the source from clearing away is free as soon as it ends", async () => {
  await using rig = await create({ copyPace: { ...pace, rangeBytes: 80_000, pointHeldMs: 50 } });
  await rig.source(`${movingRows("m", 2500)}; alter table m set (autovacuum_enabled = off)`);
  await using holder = await server.connect(rig.sinkDatabase);
  await using vacuum = await rig.sourceSession();
  const dead = async () => {
    await vacuum.query("vacuum m");
    return (await vacuum.query<{ rows: number }>(deadRows)).rows[0]?.rows;
  };
  rig.start();
  const copied = rig.untilRealtime();
  copied.catch(() => {});
  const ranges = async () => (await rig.sink(doneRanges).catch(() => [])).length;
  await waitFor("some ranges", async () => (await ranges()) > 2, { intervalMs: 2 });
  const [side] = await rig.sink<{ relname: string }>(sideTables);
  await holder.query("begin");
  await holder.query(`lock table millrace.${side?.relname} in share mode`);
  const held = await ranges();
  await vacuum.query("delete from m where id % 10 = 0");
  // What it has counted is told now, and not after VACUUM has counted the same.
  await vacuum.query("select pg_stat_force_next_flush()");
  const { rows: now } = await vacuum.query<{ xid: string }>("select pg_current_xact_id()::xid::text as xid");
  // Many times as long as a point is held: what comes next is not asked for while these are open.
  await sleep(600);
  expect((await rig.source(openPoints)).length).toBeLessThanOrEqual(2);
  expect(await dead()).toBe(250);
  await holder.query("commit");
  const isFree = async () => (await rig.source<{ yes: boolean }>(isFreed(now[0]!.xid)))[0]?.yes;
  await waitFor("rows to be free", isFree, { intervalMs: 2 });
  const afterwards = await ranges();
  expect(await dead()).toBe(0);
  // All of that amid the copy.
  expect(afterwards).toBeGreaterThanOrEqual(held);
  expect((await rig.sink(sideTables)).length).toBe(1);
  await copied;
  expect(await rig.source(openPoints)).toEqual([]);
  await rig.expectEqual();
});
