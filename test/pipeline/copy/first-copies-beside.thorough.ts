// Tables that come to a connector that streams: their first copies are made beside the stream, which goes on for the others and for them. Those without
// a key are copied while the stream waits. All of them are right in the end, whatever happens meanwhile.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Catalog } from "../../../src/connector/config/catalog.ts";
import { logicalReplication } from "../../support/api/connector-config.ts";
import { moveRows, movingRows } from "../../support/loads/moving-rows.ts";
import { variants } from "../../support/matrix.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const rows = 300;
const inRanges = { dividedFromBytes: 1, rangeBytes: 100_000, pointHeldMs: 20 };
const kept = "select table_id from millrace.divided_copy";
const ranges = "select first_page::int as from from millrace.copied_range";
const nothingKept: Record<string, unknown>[] = [];
const leftBehind =
  "select relname from pg_class where relnamespace = 'millrace'::regnamespace and relname ~ '^(copy|chunk|touched|seen|model)_' and relkind = 'r'";
let count = 0;

/** Holds what is copied until it is called. */
function hold(rig: PipelineRig): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  rig.copiesHeld = promise;
  return resolve;
}

test("tables with a key that are made while others stream are there at once, and grow", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "firstbeside",
    { source: "create table other (id serial primary key)" },
    {
      parallelCopies: 5,
      copyPace: { ...inRanges, rangeBytes: 20_000 },
      source: { partitions_as_root: true },
    },
  );
  const releaseFirst = hold(rig);
  const read = rig.copies.length;
  await rig.source(`create table keyed (id int primary key, v text); insert into keyed select g, repeat('v' || g, 90) from generate_series(1, 500) g;
    create table root (id int primary key, v text) partition by range (id); create table leaf1 partition of root for values from (0) to (100);
    create table leaf2 partition of root for values from (100) to (200); insert into root select g, 'v' from generate_series(1, 150) g`);
  await waitFor(
    "both to be read",
    () => new Set(rig.copies.slice(read).map(({ table }) => table)).size === 2,
  );
  await rig.source(`insert into other default values; update keyed set v = 'later' where id < 10; delete from keyed where id > 490;
    insert into keyed values (1000, 'new'); update keyed set id = 2000 where id = 20; update root set id = 160 where id = 10; delete from root where id = 20`);
  await rig.expectSame("select id from other order by id");
  // What the stream has brought since is there, and nothing else.
  const brought = await rig.source("select id, v from keyed where id < 10 or id >= 1000 order by id");
  expect(await rig.sink("select id, v from keyed order by id")).toEqual(brought);
  expect(await rig.sink("select id from root")).toEqual([{ id: 160 }]);
  const release = hold(rig);
  releaseFirst();
  const counted = async () => (await rig.sink<{ n: number }>("select count(*)::int as n from keyed"))[0]!.n;
  await waitFor("some ranges of it", async () => (await counted()) > brought.length);
  const some = await counted();
  expect(some).toBeLessThan(491);
  release();
  await rig.expectEqual();
  expect(await counted()).toBe(491);
  await waitFor("nothing to be kept", async () => Bun.deepEquals(await rig.sink(kept), nothingKept));
  // `other` and the two.
  await waitFor("all to be counted", () => rig.progress?.snapshot.tablesDone === 3);
  expect(rig.progress?.snapshot).toMatchObject({ tables: 3, copying: 0 });
  await rig.source("alter table keyed add w int default 7; insert into keyed values (3000, 'last', 8)");
  await rig.expectEqual();
  await rig.stop();
});

test("the stream waits while tables without a key are copied that are made while others stream", async () => {
  await using rig = await PipelineRig.streaming(server, "firstkeyless", {
    source: "create table other (id serial primary key)",
  });
  const release = hold(rig);
  const read = rig.copies.length;
  await rig.source(`create table keyless (a int, b text); alter table keyless replica identity full; insert into keyless values (1, 'x'), (1, 'x'), (2, 'y');
    create table appended (a int); insert into appended values (1), (1)`);
  await waitFor("both to be read", () => rig.copies.length === read + 2);
  expect(rig.phases.slice(-2).map(({ phase }) => phase)).toEqual(
    expect.arrayContaining([
      { name: "snapshot", table: "public.keyless" },
      { name: "snapshot", table: "public.appended" },
    ]),
  );
  await rig.source(`insert into other default values; insert into keyless values (1, 'x'), (3, null);
    delete from keyless where ctid = '(0,1)'; insert into appended values (1), (2)`);
  release();
  await rig.source("truncate appended; insert into appended values (7)");
  await rig.expectEqual();
  await rig.untilRealtime();
  await waitFor("all to be counted", () => rig.progress?.snapshot.tablesDone === 3);
  expect(await rig.sink(kept)).toEqual(nothingKept);
  await rig.source("insert into keyless values (9, 'z')");
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

test.each(variants([3], [4]))(
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

test.each([
  ["while the stream waits", "w text", "select from named where id = 3"],
  ["beside the stream", "v text", kept],
] as const)(
  "what the stream still brings of a table that is gone does not come to the one that has its name, which is copied %s",
  async (_, column, begun) => {
    const source =
      "create table other (id int primary key); create table named (id int primary key, v text); insert into named values (1, 'old')";
    // Only the first look does not wait for the stream: it is to come when that stands still.
    const pace = { tableCheckMs: 3_000 };
    await using rig = await PipelineRig.streaming(server, `nametaken${++count}`, { source }, { pace });
    const [sender] = (await rig.source(
      "select pid from pg_stat_replication where application_name <> ''",
    )) as {
      pid: number;
    }[];
    process.kill(sender!.pid, "SIGSTOP");
    try {
      await rig.source(
        `insert into named values (2, 'late'); drop table named; create table named (id int primary key, ${column});
       insert into named values (3, 'new'); insert into other values (1)`,
      );
      await waitFor("the new one's copy", async () => (await rig.sink(begun)).length === 1);
    } finally {
      process.kill(sender!.pid, "SIGCONT");
    }
    await rig.expectSame("select id from other");
    await rig.expectEqual();
    await rig.stop();
  },
);

test("a label of a shared enum is renamed amid a first copy: what has the old one is copied again", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "firstlabels",
    { source: "create table other (id serial primary key)" },
    { parallelCopies: 1, copyPace: { ...inRanges, rangeBytes: 20_000 }, isSupervised: true },
  );
  // It is not the connector's own: somebody else may still use its labels.
  await rig.sink("create type mood as enum ('a', 'z')");
  await rig.source(`create type mood as enum ('a', 'z');
    create table t (id int primary key, m mood, pad text); insert into t select g, 'a', repeat('v', 900) from generate_series(1, 3000) g`);
  await waitFor("a range to be there", async () => (await rig.sink(ranges)).length > 0);
  const release = hold(rig);
  await rig.source(
    "alter type mood rename value 'a' to 'b'; create table seen (id int primary key); insert into seen values (1)",
  );
  await waitFor(
    "the tables to be looked at",
    async () => (await rig.sink("select to_regclass('seen') is not null as is"))[0]?.is === true,
  );
  release();
  await rig.source("insert into other default values");
  const same = "select id, m::text as m from t order by id";
  await waitFor("the labels", async () => Bun.deepEquals(await rig.source(same), await rig.sink(same)), {
    timeoutMs: 20_000,
  });
  await rig.stop();
});

test("a task of a table whose first copy has just begun", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "firsttask",
    { source: "create table other (id serial primary key)" },
    // The task is to find the table before the run does.
    { parallelCopies: 5, copyPace: inRanges, pace: { tableCheckMs: 60_000 } },
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

/** Returns when some ranges of `table` are at the sink, and others are still to come: they stand still until the result is called. */
async function untilHalf(
  rig: PipelineRig,
  table: string,
  begin: () => Promise<unknown>,
): Promise<() => void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  [rig.othersHeld, rig.copiesLet] = [promise, rig.copies.length + 2];
  await begin();
  await waitFor("some ranges", async () => (await rig.sink(ranges)).length === 2);
  const count = `select count(*)::int as n from ${table}`;
  const [there, all] = await Promise.all([rig.sink<{ n: number }>(count), rig.source<{ n: number }>(count)]);
  expect(there[0]!.n).toBeGreaterThan(0);
  expect(there[0]!.n).toBeLessThan(all[0]!.n);
  return () => {
    rig.copiesLet = Number.POSITIVE_INFINITY;
    resolve();
  };
}

test("skip_snapshots comes while a first copy is under way: what is there stays right, and a task brings the rest", async () => {
  const pace = { copyRetentionMs: 900_000 };
  const options = { skipSnapshots: false, parallelCopies: 2, copyPace: inRanges, sinkPace: pace };
  await using rig = await PipelineRig.streaming(
    server,
    "firstskipped",
    { source: "create table other (id serial primary key)" },
    options,
  );
  const release = await untilHalf(rig, "m", () => rig.source(movingRows("m", rows)));
  await rig.source("insert into m values (1000, 1, 'new', 'new'); insert into other default values");
  await rig.expectSame("select id from other order by id");
  await rig.stop();
  release();
  options.skipSnapshots = true;
  pace.copyRetentionMs = 0;
  rig.start();
  const isAsAtSource = async () => {
    const there = await rig.sink<{ id: number }>("select id, n, text, far from m order by id");
    const ids = there.map(({ id }) => id).join();
    expect(await rig.source(`select id, n, text, far from m where id in (${ids}) order by id`)).toEqual(
      there,
    );
  };
  await rig.source(
    "delete from m where id % 3 = 0; update m set text = 'later', far = 'later' where id % 5 = 0; insert into other default values",
  );
  await rig.expectSame("select id from other order by id");
  await isAsAtSource();
  await waitFor("nothing to be kept", async () => Bun.deepEquals(await rig.sink(kept), nothingKept));
  expect(await rig.snapshot("m", false)).toBeNull();
  await rig.expectEqual();
  await rig.stop();
  options.skipSnapshots = false;
  rig.start();
  await rig.untilRealtime();
  await rig.source("update m set n = -1");
  await rig.expectEqual();
  await rig.stop();
});

test("a copy beside which changes of its table were not published does not count", async () => {
  await using rig = await PipelineRig.create(server, "firstmissed", {
    source: { replication_type: { logical_replication: logicalReplication("chosen") } },
    copyPace: inRanges,
    parallelCopies: 2,
  });
  await rig.source("create table other (id int primary key); create publication chosen for table other");
  rig.start();
  await rig.untilRealtime();
  const release = await untilHalf(rig, "m", () =>
    rig.source(`${movingRows("m", rows)}; alter publication chosen add table m`),
  );
  await rig.source("alter publication chosen drop table m");
  await rig.source(
    "update m set n = 9 where id % 3 = 0; delete from m where id % 4 = 0; update m set id = id + 1000 where id % 5 = 0",
  );
  await rig.source("alter publication chosen add table m");
  // The table that comes with it tells that the tables were looked at.
  await rig.source("create table third (id int primary key); alter publication chosen add table third");
  await waitFor("a look", async () => (await rig.sink(kept)).length === 2);
  release();
  await rig.expectEqual();
  await waitFor("nothing to be left", async () => (await rig.sink(leftBehind)).length === 0);
  await rig.stop();
});

test("a copy that the stream waits for, beside which changes of its table were not published, does not count", async () => {
  await using rig = await PipelineRig.create(server, "firstmissedkeyless", {
    source: { replication_type: { logical_replication: logicalReplication("chosen") } },
  });
  await rig.source("create table other (id int primary key); create publication chosen for table other");
  rig.start();
  await rig.untilRealtime();
  const release = hold(rig);
  await rig.source(
    "create table keyless (v text); insert into keyless values ('a'), ('b'); alter publication chosen add table keyless",
  );
  await waitFor("the table to be read", () => rig.copies.some(({ table }) => table === "keyless"));
  await rig.source("alter publication chosen drop table keyless");
  await rig.source("insert into keyless values ('missed')");
  await rig.source("alter publication chosen add table keyless");
  release();
  await rig.expectEqual();
  await rig.stop();
});

test("the ranges that are done of the only table there is are not read again after a death", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "firstlone",
    { source: "select" },
    { parallelCopies: 2, copyPace: inRanges },
  );
  const release = await untilHalf(rig, "m", () => rig.source(movingRows("m", rows)));
  const done = (await rig.sink<{ from: number }>(ranges)).map(({ from }) => from);
  await rig.crash();
  release();
  const read = rig.copies.length;
  await rig.source("update m set n = 1 where id % 3 = 0; delete from m where id % 4 = 0");
  rig.start();
  await rig.expectEqual();
  await waitFor("nothing to be left", async () => (await rig.sink(leftBehind)).length === 0);
  const again = rig.copies
    .slice(read)
    .flatMap(({ part }) => (part?.kind === "range" ? [part.range.from] : []));
  expect(again.length).toBeGreaterThan(0);
  expect(again.filter((from) => done.includes(from))).toEqual([]);
  await rig.stop();
});

const givenUp = variants(
  [
    ["is left out of the catalog for a while", ""],
    [
      "is dropped, and another made in its place",
      `drop table m; ${movingRows("m", rows)}; delete from m where id < 100`,
    ],
    ["loses its key", "alter table m drop constraint m_pkey"],
  ],
  [
    ["is rewritten", "vacuum full m"],
    ["gets another key", "alter table m drop constraint m_pkey, add primary key (id, n)"],
  ],
);

test.each(givenUp)("a table that %s when some ranges of its first copy are there", async (_, meanwhile) => {
  await using rig = await PipelineRig.streaming(
    server,
    `firstgivenup${++count}`,
    { source: `create table other (id serial primary key); ${movingRows("m", rows)}` },
    { parallelCopies: 2, copyPace: inRanges, isSupervised: true, source: { catalog: only("other") } },
  );
  await rig.stop();
  rig.reconfigure({ catalog: only("other", "m") });
  const release = await untilHalf(rig, "m", async () => rig.start());
  await rig.crash();
  release();
  if (meanwhile === "") {
    rig.reconfigure({ catalog: only("other") });
    rig.start();
    await rig.untilRealtime();
    await rig.source(
      "update m set n = 9 where id % 3 = 0; delete from m where id % 4 = 0; insert into other default values",
    );
    await rig.expectSame("select id from other order by id");
    expect(await rig.sink(kept)).toEqual(nothingKept);
    await rig.stop();
    rig.reconfigure({ catalog: only("other", "m") });
  } else {
    await rig.source("update m set n = 9 where id % 3 = 0; delete from m where id % 4 = 0");
    await rig.source(meanwhile);
  }
  rig.start();
  await rig.source("insert into m values (1000, 1, 'new', 'new')");
  await rig.expectEqual();
  await waitFor("nothing to be kept", async () => Bun.deepEquals(await rig.sink(kept), nothingKept));
  await waitFor("nothing to be left", async () => (await rig.sink(leftBehind)).length === 0);
  await rig.stop();
});

test("for want of a point, one without a key keeps no other table from going on when the run begins", async () => {
  const retryPace = { againMs: 100, mostMs: 200, changedAgainMs: 50 };
  const source = "create table other (id int primary key); insert into other values (1)";
  await using rig = await PipelineRig.streaming(server, `firstbeside${++count}`, { source }, { retryPace });
  await rig.expectEqual();
  await rig.stop();
  await rig.source("create table keyless (v text); insert into keyless values ('a')");
  await server.query(`select pg_create_physical_replication_slot('taken' || g)
    from generate_series(1, current_setting('max_replication_slots')::int - (select count(*)::int from pg_replication_slots)) g`);
  const free = () =>
    server.query(
      "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name ~ '^taken'",
    );
  await using _free = { [Symbol.asyncDispose]: async () => void (await free()) };
  rig.start();
  await rig.source("insert into other values (2); insert into keyless values ('b')");
  await rig.expectSame("select id from other order by id");
  expect(rig.setAside).toMatchObject([{ name: "keyless", reason: expect.stringContaining("slots") }]);
  await free();
  await rig.expectEqual();
  expect(rig.setAside).toEqual([]);
  await rig.stop();
});
