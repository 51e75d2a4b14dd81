// Snapshot tasks beside the stream that die in the middle: what was copied of the table is not copied again, whatever has died, and the
// result is exact. Where what was copied is good no more, the task begins anew.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { moveRows, movingRows } from "../../support/loads/moving-rows.ts";
import { variants } from "../../support/matrix.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

setDefaultTimeout(120_000);

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const rows = 400;
const inRanges = { dividedFromBytes: 1, rangeBytes: 100_000, pointHeldMs: 20 };
const kept = "select table_id from millrace.divided_copy";
const side =
  "select relname from pg_class where relnamespace = 'millrace'::regnamespace and relname ~ '^(copy|chunk|touched|seen|model)_' and relkind = 'r'";
const held = 'select first_page::int as "from", next_page::int as "to" from millrace.copied_range order by 1';

let count = 0;
const streaming = (source: string, options: RigOptions = {}) =>
  PipelineRig.streaming(
    server,
    `goingon${++count}`,
    { source },
    { parallelCopies: 4, copyPace: inRanges, isSupervised: true, tasksGoOn: true, ...options },
  );

/** Rows at the sink are made wrong, missing and extra by hand. */
const corrupt = (rig: PipelineRig) =>
  rig.sink(`update m set far = 'wrong' where id % 7 = 0; update m set text = 'wrong' where id % 11 = 0;
    delete from m where id % 5 = 0 and id <= 50; insert into m select g, 0, 'extra', 'extra' from generate_series(5001, 5100) g`);

interface Range {
  readonly from: number;
  readonly to: number | null;
}

const heldRanges = (rig: PipelineRig) => rig.sink<Range>(held);

const areApart = (some: readonly Range[], others: readonly Range[]) =>
  some.every(({ from, to }) =>
    others.every((other) => from >= (other.to ?? Infinity) || other.from >= (to ?? Infinity)),
  );

/** Returns what `task` gives when the sink holds some ranges of the table, and the others are held up. */
async function untilHalf<T>(
  rig: PipelineRig,
  task: () => T,
): Promise<{ readonly task: T; readonly ranges: readonly Range[] }> {
  rig.copiesLet = rig.copies.length + 5;
  const offered = task();
  await waitFor("half of the ranges", async () => (await heldRanges(rig)).length === 5);
  return { task: offered, ranges: await heldRanges(rig) };
}

/** They go on with the next run. */
function startAgain(rig: PipelineRig): { readonly rangesRead: () => readonly Range[] } {
  rig.copiesLet = Number.POSITIVE_INFINITY;
  const read = rig.copies.length;
  rig.start();
  return { rangesRead: () => rangesRead(rig, read) };
}

const rangesRead = (rig: PipelineRig, from: number) =>
  rig.copies.slice(from).flatMap(({ part }) => (part?.kind === "range" ? [part.range] : []));

async function expectNothingLeft(rig: PipelineRig): Promise<void> {
  await waitFor("nothing to be left", async () => (await rig.sink(side)).length === 0);
  expect(await rig.sink(kept)).toEqual([]);
  expect(await heldRanges(rig)).toEqual([]);
}

test("the ranges that were copied are not read again after a death, amid changes", async () => {
  await using rig = await streaming(movingRows("m", rows));
  await rig.expectEqual();
  await corrupt(rig);
  {
    await using moving = await moveRows(rig, "m", rows, 3);
    const { task, ranges } = await untilHalf(rig, () => rig.snapshot("m", true));
    await rig.crash();
    const { transactions } = moving;
    await waitFor("changes meanwhile", () => moving.transactions > transactions + 20);
    const first = startAgain(rig);
    expect(await task).toBeNull();
    expect(first.rangesRead().length).toBeGreaterThan(0);
    expect(areApart(first.rangesRead(), ranges)).toBe(true);
  }
  await rig.expectEqual();
  await expectNothingLeft(rig);
  await rig.stop();
});

const fill = "insert into t (id, v) select g, repeat('v' || g, 300) from generate_series(1, 300) g";

test("another task of the table goes on with the ranges, and begins anew where they are good no more; they are not kept for ever", async () => {
  const pace = { copyRetentionMs: 900_000 };
  await using rig = await streaming(
    `create table t (id int primary key, v text); ${fill}; create table other (id int)`,
    {
      copyPace: { ...inRanges, rangeBytes: 20_000 },
      sinkPace: pace,
      tasksGoOn: false,
    },
  );
  await rig.expectEqual();
  const half = async (truncate: boolean) => {
    await rig.sink("delete from t where id % 7 = 0; insert into t values (9999, 'extra')");
    const { task, ranges } = await untilHalf(rig, () => rig.snapshot("t", truncate));
    await rig.crash();
    return { task, ranges };
  };
  const change = () =>
    rig.source("update t set v = 'later' where id % 5 = 0; delete from t where id % 11 = 0");
  type Case = readonly [
    what: string,
    meanwhile: () => Promise<unknown>,
    modes: readonly [boolean, boolean],
    goesOn: boolean,
  ];
  const everyday: readonly Case[] = [
    ["changes", change, [true, true], true],
    // What the first has brought is not recorded by key.
    ["rows are to be replaced", change, [false, true], false],
    ["a rewrite", () => rig.source("vacuum full t"), [true, true], false],
    ["another column at the sink", () => rig.sink("alter table t add own int"), [true, true], false],
  ];
  const others: readonly Case[] = [
    ["changes", change, [false, false], true],
    ["a truncate", () => rig.source(`truncate t; ${fill}`), [true, true], false],
    ["another column", () => rig.source("alter table t add w int default 7"), [true, true], false],
  ];
  for (const [what, meanwhile, modes, goesOn] of variants(everyday, others)) {
    await rig.source(`truncate t; ${fill}`);
    await rig.expectSame("select id, v from t order by id");
    const { task, ranges } = await half(modes[0]);
    await meanwhile();
    const { rangesRead } = startAgain(rig);
    expect(await task).not.toBeNull();
    await rig.untilRealtime();
    expect(await rig.snapshot("t", modes[1])).toBeNull();
    const read = rangesRead();
    // A table that is about to be altered may be copied whole.
    expect([what, read.length > 0 && areApart(read, ranges)]).toEqual([what, goesOn]);
    const isOwn = modes[1] ? "false" : "id = 9999";
    await rig.sink(`delete from t where ${isOwn}`);
    await rig.expectSame("select id, v from t order by id");
    await expectNothingLeft(rig);
  }
  await half(true);
  pace.copyRetentionMs = 0;
  startAgain(rig);
  await expectNothingLeft(rig);
  await rig.source("insert into other values (1); update t set v = 'last' where id = 1");
  await rig.expectSame("select id from other");
  await rig.stop();
});

test.each(variants([true], [false]))(
  "a copy that was good no more when the run died leaves nothing behind, and is in no other's way (copied again: %p)",
  async (isCopiedAgain) => {
    await using rig = await streaming(`create table t (id int primary key, v text); ${fill}`, {
      copyPace: { ...inRanges, rangeBytes: 20_000 },
      tasksGoOn: false,
    });
    await rig.expectEqual();
    const { task } = await untilHalf(rig, () => rig.snapshot("t", true));
    await rig.source("alter table t add w int default 7; insert into t values (1000, 'new', 8)");
    await rig.expectEqual();
    await waitFor("the record to go", async () => (await rig.sink(kept)).length === 0);
    expect(await rig.sink(side)).not.toEqual([]);
    await rig.crash();
    startAgain(rig);
    expect(await task).not.toBeNull();
    await rig.untilRealtime();
    if (isCopiedAgain) expect(await rig.snapshot("t", true)).toBeNull();
    await rig.source("update t set v = 'last' where id = 1");
    await rig.expectEqual();
    await expectNothingLeft(rig);
    await rig.stop();
  },
);
