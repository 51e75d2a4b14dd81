// Snapshot tasks beside the stream: it goes on, for the table that is copied too, and in the end the sink has what the source has.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { moveRows, movingRows } from "../../support/loads/moving-rows.ts";
import { pick, variants } from "../../support/matrix.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const rows = 800;
/** Each few pages are a range, as of a point of their own where one can be had. */
const inRanges = { dividedFromBytes: 1, rangeBytes: 200_000, pointHeldMs: 20 };

const streaming = (sql: { readonly source: string; readonly sink?: string }, options: RigOptions = {}) =>
  PipelineRig.streaming(server, `beside${++count}`, sql, { parallelCopies: 5, ...options });

const leftBehind =
  "select relname from pg_class where relnamespace = 'millrace'::regnamespace and relname ~ '^(copy|chunk|touched|seen|model)_' and relkind = 'r'";

/** Holds what is copied until it is called. */
function hold(rig: PipelineRig): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  rig.copiesHeld = promise;
  return resolve;
}

const untilRead = (rig: PipelineRig, before: number) =>
  waitFor("the copy to be read", () => rig.copies.length > before);

/** Rows at the sink are made wrong, missing and extra by hand. */
async function corrupt(rig: PipelineRig, n: number): Promise<void> {
  await rig.sink(`update m set far = 'wrong' where id % 7 = ${n % 7} and id <= 50; update m set text = 'wrong' where id % 11 = ${n % 11};
    delete from m where id % 5 = ${n % 5} and id <= 50; insert into m select g, 0, 'extra', 'extra' from generate_series(5001, 5100) g on conflict do nothing`);
}

/** Whether there was one. */
async function endCopySession(rig: PipelineRig): Promise<boolean> {
  const ended = await rig.sink(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name ~ '^millrace copy' and datname = current_database()",
  );
  return ended.length > 0;
}

test("while a task is held up, changes of its table and of others arrive, and all of it is right in the end", async () => {
  await using rig = await streaming(
    { source: `${movingRows("m", rows)}; create table other (id int primary key)` },
    { copyPace: inRanges },
  );
  await rig.expectEqual();
  // Wrong, missing and extra rows, also some that changes will meet.
  await rig.sink(`update m set far = 'wrong' where id % 7 = 0; update m set text = 'wrong' where id % 11 = 0;
    delete from m where id % 13 = 0; insert into m select g, 0, 'extra', 'extra' from generate_series(5001, 5100) g`);
  const release = hold(rig);
  const before = rig.copies.length;
  let least = Number.POSITIVE_INFINITY;
  const task = rig.snapshot("m", true);
  await untilRead(rig, before);
  {
    await using _moving = await moveRows(rig, "m", rows);
    const begunAt = performance.now();
    await rig.source("insert into other values (1); update m set n = -7 where id = 3");
    await waitFor("the changes", async () => {
      const [row] = await rig.sink<{ there: boolean; n: number }>(
        "select exists (select from other) and exists (select from m where n = -7) as there, (select count(*)::int from m) as n",
      );
      least = Math.min(least, row?.n ?? 0);
      return row?.there;
    });
    // The copy is still held. On a quiet machine it is a few milliseconds.
    expect(performance.now() - begunAt).toBeLessThan(10_000);
    release();
    const watching = waitFor("the task", async () => {
      const [row] = await rig.sink<{ n: number }>("select count(*)::int as n from m");
      least = Math.min(least, row?.n ?? 0);
      return (await Promise.race([task, Promise.resolve("not yet")])) !== "not yet";
    });
    expect(await task).toBeNull();
    await watching;
  }
  expect(least).toBeGreaterThan(rows / 2);
  expect(new Set(rig.copies.slice(before).map(({ lsn }) => lsn)).size).toBeGreaterThan(1);
  await rig.expectEqual();
  await waitFor("nothing to be left", async () => (await rig.sink(leftBehind)).length === 0);
  await rig.stop();
});

test.each([
  ["beside the stream", "u int"],
  ["while the stream waits", "u int unique"],
])(
  "a table that is right already is not written to, and rows of the sink's own stay but where they are to be replaced (%s)",
  async (_, u) => {
    await using rig = await streaming({
      source: `create table t (id numeric primary key, v text, ${u}); insert into t select g, 'v' || g, g from generate_series(1, 3000) g`,
      sink: `create table t (own text default 'own', ${u}, id numeric primary key, v varchar(20))`,
    });
    await rig.expectSame("select id, v, u from t order by id");
    const image =
      "select md5(string_agg(format('%s %s %s', ctid, xmin, own), ',' order by ctid)) as image from t";
    const before = await rig.sink(image);
    expect(await rig.snapshot("t", true)).toBeNull();
    expect(await rig.sink(image)).toEqual(before);

    // Two rows have each other's values of a unique index; what was added to them is kept.
    await rig.sink(`update t set own = 'mine'; update t set u = -1 where id = 1; update t set u = 1 where id = 2; update t set u = 2 where id = 1;
    delete from t where id = 5; insert into t values ('extra', 99999, -5, 'extra')`);
    expect(await rig.snapshot("t", false)).toBeNull();
    await rig.expectSame("select id, v, u from t where id > 0 order by id");
    expect(await rig.sink("select own, count(*)::int as n from t group by own order by own")).toEqual([
      { own: "extra", n: 1 },
      { own: "mine", n: 2999 },
      { own: "own", n: 1 },
    ]);
    expect(await rig.snapshot("t", true)).toBeNull();
    await rig.expectSame("select id, v, u from t order by id");
    await rig.stop();
  },
);

test("tasks of two tables go side by side, those of one table one after the other; a table that is altered or emptied begins anew", async () => {
  const fill = (name: string) =>
    `create table ${name} (id int primary key, v text); insert into ${name} select g, 'v' || g from generate_series(1, 2000) g`;
  await using rig = await streaming({ source: ["a", "b", "c"].map(fill).join("; ") });
  await rig.expectEqual();
  // The first two points are passed before the copies start, the others are what they read as of.
  const held = Promise.withResolvers<void>();
  let points = 0;
  rig.beforePoint = async () => {
    if (++points > 2) await held.promise;
  };
  const tasks = [
    rig.snapshot("a", true),
    rig.snapshot("a", false),
    rig.snapshot("b", true),
    rig.snapshot("c", true),
  ];
  await waitFor("two to have started", () => points === 4);
  const recorded = "select relname from pg_class where relname ~ '^touched_' and relkind = 'r'";
  expect(await rig.sink(recorded)).toHaveLength(2);
  await rig.source("truncate a; insert into a values (1, 'again'); alter table b add column w int default 7");
  await rig.source("insert into b values (5000, 'new', 8)");
  await rig.expectEqual();
  expect(points).toBe(4);
  held.resolve();
  const outcomes = await Promise.all(tasks);
  expect(outcomes.map((outcome) => (outcome as { code?: string } | null)?.code ?? null)).toEqual([
    "table_changed",
    null,
    "table_changed",
    null,
  ]);
  expect(await rig.snapshot("b", true)).toBeNull();
  await rig.expectEqual();
  expect(await rig.sink(leftBehind)).toEqual([]);
  await rig.stop();
});

const identities = [
  ["default", 3],
  ["full", 4],
] as const;

test.each(pick(identities, ([identity]) => identity === "full"))(
  "a task that dies again and again amid changes of its rows comes to a right table, under identity %s (%i)",
  async (identity, seed) => {
    const some = 200;
    await using rig = await streaming(
      { source: movingRows("m", some, identity) },
      { copyPace: { ...inRanges, rangeBytes: 100_000 }, isSupervised: true, tasksGoOn: true },
    );
    await rig.expectEqual();
    {
      await using _moving = await moveRows(rig, "m", some, seed);
      for (const [i, calls] of variants([14, 36], [25, 47]).entries()) {
        await corrupt(rig, i);
        const task = rig.snapshot("m", i % 2 === 0);
        rig.dieAt(calls);
        await Promise.race([rig.ended(), task]);
        if (rig.isDead) rig.start();
      }
      rig.dieAt(Number.POSITIVE_INFINITY);
      await corrupt(rig, 5);
      const task = rig.snapshot("m", true);
      await waitFor("a session that copies", () => endCopySession(rig));
      // It is the session's end, if it was not too late for that; or the run began again, to copy the whole table.
      const lost = await task;
      if (lost !== null) expect(lost).toMatchObject({ retry: "transient" });
      expect(await rig.snapshot("m", true)).toBeNull();
    }
    await rig.expectEqual();
    await rig.stop();
  },
);

test("a stop while a task compares ends what the sink's server does for it, and leaves nothing behind", async () => {
  await using rig = await streaming({
    source: "create table t (id int primary key); insert into t values (1)",
  });
  const release = hold(rig);
  const before = rig.copies.length;
  // The next run would take it up.
  void rig.snapshot("t", true);
  await untilRead(rig, before);
  await using holder = await server.connect(rig.sinkDatabase);
  await holder.query("begin; lock table t in access exclusive mode");
  release();
  const comparing = async () =>
    await rig.sink(
      "select pid from pg_stat_activity where application_name ~ '^millrace copy' and datname = current_database() and wait_event_type = 'Lock'",
    );
  await waitFor("the comparison", async () => (await comparing()).length === 1);
  const begunAt = performance.now();
  await rig.stop();
  // A server looks every five seconds whether its client is there.
  expect(performance.now() - begunAt).toBeLessThan(4_000);
  expect(await comparing()).toEqual([]);
  expect(await rig.sink(leftBehind)).toEqual([]);
  await holder.query("rollback");
});

test("a task that brings its table with it does not hold the stream up either", async () => {
  // Nobody looks at the tables before the task does: its table is published, and gets its first copy, because of it.
  const sql = { source: "create table other (id int primary key)" };
  await using rig = await streaming(sql, { pace: { tableCheckMs: 60_000 } });
  await rig.source(
    "create table late (id int primary key, v text); insert into late select g, 'v' from generate_series(1, 50) g",
  );
  const { promise, resolve: release } = Promise.withResolvers<void>();
  const before = rig.copies.length;
  rig.othersHeld = promise;
  rig.copiesLet = before + 1;
  const task = rig.snapshot("late", false);
  await untilRead(rig, before + 1);
  await rig.source("insert into other values (1); update late set v = 'later' where id < 5");
  await rig.expectSame("select id from other");
  await rig.expectSame("select id, v from late where id < 5 order by id");
  release();
  expect(await task).toBeNull();
  await rig.expectEqual();
  await rig.stop();
});

test("force_parallel divides a table that would be copied whole", async () => {
  await using rig = await streaming({ source: movingRows("m", rows) });
  const chunks = () => rig.copies.splice(0).map(({ part }) => part?.kind ?? "whole");
  chunks();
  expect(await rig.snapshot("m", true)).toBeNull();
  expect(chunks()).toEqual(["whole"]);
  expect(await rig.snapshot("m", true, true)).toBeNull();
  const divided = chunks();
  expect([divided.length > 2, new Set(divided)]).toEqual([true, new Set(["range"])]);
  await rig.expectEqual();
});

test("a lock on a task's table at the sink fails the task, and holds up neither the stream nor the run", async () => {
  await using rig = await streaming({
    source: `${movingRows("m", rows)}; create table other (id int primary key)`,
  });
  await using locker = await server.connect(rig.sinkDatabase);
  await locker.query("begin; lock table m in access exclusive mode");
  const failed = rig.snapshot("m", true);
  await rig.source("insert into other values (1)");
  await waitFor("the other table's row", async () => (await rig.sink("select from other")).length === 1);
  expect(await failed).toMatchObject({ code: "table_changed" });
  await locker.query("commit");
  await rig.source("update m set n = n + 1 where id < 10");
  expect(await rig.snapshot("m", true)).toBeNull();
  await rig.expectEqual();
});
