// Tables that come to a connector that streams: their first copies are made beside the stream, which goes on for the others; nothing is
// seen of them before, and all of them is right in the end.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Catalog } from "../../src/connector/config/catalog.ts";
import { logicalReplication } from "../support/connector-config.ts";
import { moveRows, movingRows } from "../support/moving-rows.ts";
import { PipelineRig } from "../support/pipeline-rig.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const rows = 300;
const inRanges = { dividedFromBytes: 1, rangeBytes: 100_000, pointHeldMs: 20 };
const kept =
  "select (select count(*)::int from millrace.held_table) as tables, (select count(*)::int from millrace.held_change) as changes";
const ranges = "select first_page::int as from from millrace.copied_range";
const nothingKept = [{ tables: 0, changes: 0 }];

/** Holds what is copied until it is called. */
function hold(rig: PipelineRig): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  rig.copiesHeld = promise;
  return resolve;
}

test("tables of every kind that are made while others stream", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "firstbeside",
    { source: "create table other (id serial primary key)" },
    { parallelCopies: 5, source: { partitions_as_root: true } },
  );
  const release = hold(rig);
  const read = rig.copies.length;
  await rig.source(`create table keyed (id int primary key, v text); insert into keyed select g, 'v' || g from generate_series(1, 500) g;
    create table keyless (a int, b text); alter table keyless replica identity full; insert into keyless values (1, 'x'), (1, 'x'), (2, 'y');
    create table appended (a int); insert into appended values (1), (1);
    create table root (id int primary key, v text) partition by range (id); create table leaf1 partition of root for values from (0) to (100);
    create table leaf2 partition of root for values from (100) to (200); insert into root select g, 'v' from generate_series(1, 150) g`);
  await waitFor("the first to be read", () => rig.copies.length > read);
  await rig.source(`insert into other default values; update keyed set v = 'later' where id < 10; delete from keyed where id > 490;
    insert into keyed values (1000, 'new'); update keyed set id = 2000 where id = 20; insert into keyless values (1, 'x'), (3, null);
    delete from keyless where ctid = '(0,1)'; insert into appended values (1), (2); update root set id = 160 where id = 10; delete from root where id = 20`);
  await rig.expectSame("select id from other order by id");
  expect(
    await rig.sink("select from pg_class where relname in ('keyed', 'keyless', 'appended', 'root')"),
  ).toEqual([]);
  release();
  await rig.source("truncate appended; insert into appended values (7)");
  await rig.expectEqual();
  await waitFor("nothing to be kept", async () => Bun.deepEquals(await rig.sink(kept), nothingKept));
  // `other` and the four.
  await waitFor("all to be counted", () => rig.progress?.snapshot.tablesDone === 5);
  expect(rig.progress?.snapshot).toMatchObject({ tables: 5, copying: 0 });
  await rig.source(
    "alter table keyed add w int default 7; insert into keyed values (3000, 'last', 8); insert into keyless values (9, 'z')",
  );
  await rig.expectEqual();
  await rig.stop();
});

const only = (...names: readonly string[]): Catalog => ({
  name: "any",
  default_action: "Exclude",
  schemas: [
    {
      name: "public",
      action: "Exclude",
      tables: names.map((name) => ({ name, action: "Include", history_enabled: false, columns: [] })),
    },
  ],
});

test.each([3, 4])(
  "a table that is selected later, in ranges amid its changes, whatever dies (%i)",
  async (seed) => {
    await using rig = await PipelineRig.streaming(
      server,
      `firstlater${seed}`,
      { source: `create table other (id serial primary key); ${movingRows("m", rows)}` },
      { parallelCopies: 5, copyPace: inRanges, isSupervised: true, source: { catalog: only("other") } },
    );
    await rig.stop();
    rig.reconfigure({ catalog: only("other", "m") });
    const held = async () => (await rig.sink<{ from: number }>(ranges)).map(({ from }) => from);
    // Of the ranges that a life reads the first alone goes on, so that it is held when the life ends.
    const startAndHold = () => {
      rig.copiesLet = rig.copies.length + 1;
      rig.start();
    };
    const lives: { readonly held: readonly number[]; readonly before: number }[] = [];
    const release = hold(rig);
    startAndHold();
    {
      await using _moving = await moveRows(rig, "m", rows, seed);
      await waitFor("the table to be read", () => rig.copies.some(({ table }) => table === "m"));
      await rig.source("insert into other default values");
      await rig.expectSame("select id from other order by id");
      release();
      for (let life = 1; life <= 2; life++) {
        await waitFor("one more range to be held", async () => (await held()).length === life);
        rig.dieAt(seed * life);
        await rig.ended();
        lives.push({ held: await held(), before: rig.copies.length });
        startAndHold();
      }
      rig.copiesLet = Number.POSITIVE_INFINITY;
      rig.dieAt(16 + seed);
      await rig.ended();
      rig.start();
      rig.dieAt(Number.POSITIVE_INFINITY);
    }
    await rig.source("insert into other default values");
    await rig.expectSame("select id from other order by id");
    await rig.expectEqual();
    await waitFor("nothing to be kept", async () => Bun.deepEquals(await rig.sink(kept), nothingKept));
    // Ranges that were copied are not read again.
    for (const { held, before } of lives) {
      const again = rig.copies
        .slice(before)
        .flatMap(({ part }) => (part?.kind === "range" ? [part.range.from] : []));
      expect(again.filter((from) => held.includes(from))).toEqual([]);
    }
    expect(lives.map(({ held }) => held.length)).toEqual([1, 2]);
    await rig.stop();
  },
);

test("what the stream still brings of a table that is gone does not come to the one that has its name", async () => {
  const source =
    "create table other (id int primary key); create table named (id int primary key, v text); insert into named values (1, 'old')";
  // Only the first look does not wait for the stream: it is to come when that stands still.
  const pace = { lookAtTablesMs: 3_000 };
  await using rig = await PipelineRig.streaming(server, "nametaken", { source }, { pace });
  const [sender] = (await rig.source("select pid from pg_stat_replication where application_name <> ''")) as {
    pid: number;
  }[];
  process.kill(sender!.pid, "SIGSTOP");
  try {
    await rig.source(
      `insert into named values (2, 'late'); drop table named; create table named (id int primary key, w text);
       insert into named values (3, 'new'); insert into other values (1)`,
    );
    const isCopied = "select from named where id = 3";
    await waitFor("the new one's copy", async () => (await rig.sink(isCopied)).length === 1);
  } finally {
    process.kill(sender!.pid, "SIGCONT");
  }
  await rig.expectSame("select id from other");
  await rig.expectEqual();
  await rig.stop();
});

test("a task of a table whose first copy has just begun", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "firsttask",
    { source: "create table other (id serial primary key)" },
    // The task is to find the table before the run does.
    { parallelCopies: 5, copyPace: inRanges, pace: { lookAtTablesMs: 60_000 } },
  );
  const release = hold(rig);
  const read = rig.copies.length;
  await rig.source(movingRows("m", rows));
  const task = rig.snapshot("m", false);
  await waitFor("the table to be read", () => rig.copies.length > read);
  await rig.source("update m set n = 1; insert into other default values");
  await rig.expectSame("select id from other order by id", 5_000);
  release();
  expect(await task).toBeNull();
  await rig.expectEqual();
  await rig.stop();
});

test("skip_snapshots comes while a first copy is under way", async () => {
  const options = { skipSnapshots: false };
  await using rig = await PipelineRig.streaming(
    server,
    "firstskipped",
    { source: "create table other (id serial primary key)" },
    options,
  );
  const release = hold(rig);
  const read = rig.copies.length;
  await rig.source("create table t (id int primary key); insert into t values (1)");
  await waitFor("the table to be read", () => rig.copies.length > read);
  await rig.source("insert into t values (2); insert into other default values");
  await rig.expectSame("select id from other order by id");
  await rig.stop();
  release();
  options.skipSnapshots = true;
  rig.start();
  await rig.source("insert into t values (3)");
  await waitFor("what was kept", async () =>
    Bun.deepEquals(await rig.sink("select id from t order by id"), [{ id: 2 }, { id: 3 }]),
  );
  expect(await rig.sink(kept)).toEqual(nothingKept);
  await rig.stop();
});

test("a copy beside which changes of its table were not published does not count", async () => {
  await using rig = await PipelineRig.create(server, "firstmissed", {
    source: { replication_type: { logical_replication: logicalReplication("chosen") } },
  });
  await rig.source("create table other (id int primary key); create publication chosen for table other");
  rig.start();
  await rig.untilRealtime();
  const release = hold(rig);
  await rig.source(`create table m (id int primary key, v text); insert into m select g, 'v' from generate_series(1, 200) g;
    create table keyless (v text); insert into keyless values ('a'), ('b'); alter publication chosen add table m, keyless`);
  await waitFor("the tables to be read", () => rig.copies.length > 2);
  await rig.source("alter publication chosen drop table m, keyless");
  await rig.source("update m set v = 'missed' where id < 9; insert into keyless values ('missed')");
  await rig.source("alter publication chosen add table m, keyless");
  // The table that comes with them tells that the tables were looked at.
  await rig.source("create table third (id int primary key); alter publication chosen add table third");
  await waitFor("a look", async () => (await rig.sink("select from millrace.held_table")).length === 3);
  release();
  await rig.expectEqual();
  await rig.stop();
});
