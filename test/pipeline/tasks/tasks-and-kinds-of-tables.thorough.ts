// Snapshot tasks of the kinds of tables that need care: those whose rows are made anew on their way, those that are told apart by something else than
// their primary key, and those that the stream waits for.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Catalog } from "../../../src/connector/config/catalog.ts";
import { moveRows, movingRows } from "../../support/loads/moving-rows.ts";
import { isWholeMatrix, testEveryDay } from "../../support/matrix.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

// Where rows go on moving, tasks take as long as the stream is behind.
setDefaultTimeout(120_000);

let server: PostgresServer;
/** On one server the transaction of a copy that is held would hold up the next point. */
let sinkServer: PostgresServer;
beforeAll(async () => {
  [server, sinkServer] = await Promise.all([
    PostgresServer.start({ settings: { fsync: "off" } }),
    PostgresServer.start({ settings: { fsync: "off" } }),
  ]);
});
afterAll(async () => {
  await Promise.all([server[Symbol.asyncDispose](), sinkServer[Symbol.asyncDispose]()]);
});

const tables = ["hashed", "indexed", "plain"];
const rows = 150;
const inRanges = { dividedFromBytes: 1, rangeBytes: 100_000, pointHeldMs: 20 };

const hashing: Catalog = {
  name: "any",
  default_action: "Include",
  column_hashing: { algorithm: "Sha256", salt: "a salt" },
  schemas: [
    {
      name: "public",
      action: "Include",
      tables: [
        {
          name: "hashed",
          action: "Include",
          history_enabled: false,
          columns: ["id", "far"].map((name) => ({ name, action: "Include", hash: {} })),
        },
      ],
    },
  ],
};

test("tables with system columns, hashed columns, and identified by an index go beside the stream", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "besidekinds",
    {
      source: `${tables.map((name) => movingRows(name, rows)).join("; ")};
        create unique index by_id on indexed (id); alter table indexed drop constraint indexed_pkey;
        alter table indexed replica identity using index by_id;
        create table other (id serial primary key)`,
    },
    {
      sinkServer,
      parallelCopies: 5,
      copyPace: inRanges,
      source: {
        catalog: hashing,
        system_columns: { synced_at: {}, lsn: {}, op: { encoding: "Char", snapshot_as_read: true } },
      },
    },
  );
  await rig.expectEqual();
  const image = "select md5(string_agg(format('%s %s', ctid, xmin), ',' order by ctid)) as image from plain";
  const before = await rig.sink(image);
  expect(await rig.snapshot("plain", true)).toBeNull();
  // What tells where a row comes from stays, where the row is right.
  expect(await rig.sink(image)).toEqual(before);

  for (const table of tables) {
    const key = table === "hashed" ? "md5(id)" : "id + 5000";
    await rig.sink(`update ${table} set id = ${key} where ctid::text ~ '7,'; update ${table} set far = 'wrong' where ctid::text ~ '3,';
      update ${table} set text = 'wrong' where ctid::text ~ '4,'; update ${table} set _sm_lsn = null where ctid::text ~ '5,'`);
  }
  const { promise, resolve } = Promise.withResolvers<void>();
  rig.copiesHeld = promise;
  const read = rig.copies.length;
  const tasks = tables.map((table) => rig.snapshot(table, true));
  await waitFor("tables to be read", () => rig.copies.length > read + 1);
  {
    await using _hashed = await moveRows(rig, "hashed", rows);
    await using _indexed = await moveRows(rig, "indexed", rows);
    await rig.source("insert into other default values");
    await rig.expectSame("select id from other order by id");
    resolve();
    expect(await Promise.all(tasks.slice(0, 2))).toEqual([null, null]);
  }
  expect(await tasks[2]).toBeNull();
  await rig.expectEqual();
  for (const table of tables) {
    const lacking = `select from ${table} where num_nulls(_sm_lsn, _sm_synced_at, _sm_op) > 0`;
    expect(await rig.sink(lacking)).toEqual([]);
  }
  await rig.stop();
});

test("the stream waits for tables with foreign keys in force, which are satisfied all along", async () => {
  await using rig = await PipelineRig.create(server, "besidekeys", { parallelCopies: 5 });
  const made = (references: (table: string) => string) => `
    create table parent (id int primary key, v text, u int unique);
    create table child (id int primary key, parent int not null${references("parent")}, v text);
    create table tree (id int primary key, up int${references("tree")}, v text)`;
  await rig.source(
    `${made(() => "")}; insert into parent select g, 'v' || g, g from generate_series(1, 200) g;
      insert into child select g, g, 'v' || g from generate_series(1, 200) g;
      insert into tree select g, nullif(g / 2, 0), 'v' || g from generate_series(1, 200) g`,
  );
  await server.query("create role unprivileged login");
  await server.query(`grant create, temporary on database "${rig.sinkDatabase}" to unprivileged`);
  await rig.sink(
    `grant create, usage on schema public to unprivileged; set role unprivileged; ${made((table) => ` references ${table}`)}`,
  );
  rig.sinkUser = "unprivileged";
  rig.start();
  await rig.untilRealtime();
  await rig.expectEqual();
  await rig.sink(`insert into parent values (900, 'extra', 900); insert into child values (900, 900, 'extra');
    update parent set v = 'wrong' where id % 3 = 0; update child set parent = 900 where id = 12; delete from child where id between 20 and 30;
    delete from parent where id between 21 and 25; update tree set up = 200 where id > 190; delete from tree where id between 101 and 150;
    insert into tree values (900, 1, 'extra'); update tree set up = 900 where id = 60`);
  const { promise, resolve } = Promise.withResolvers<void>();
  rig.copiesHeld = promise;
  const read = rig.copies.length;
  // Extra rows of a table go once no other refers to them.
  const first = [rig.snapshot("parent", false), rig.snapshot("tree", true)];
  await waitFor("a table to be read", () => rig.copies.length === read + 1);
  await rig.source(`insert into parent values (201, 'new', 201); insert into child values (201, 201, 'new'); update parent set v = 'new' where id = 3;
    begin; delete from child where id = 7; delete from parent where id = 7; commit; insert into tree values (201, 200, 'new'); delete from tree where id = 199`);
  resolve();
  expect(await Promise.all(first)).toEqual([null, null]);
  expect(await rig.snapshot("child", true)).toBeNull();
  expect(await rig.snapshot("parent", true)).toBeNull();
  await rig.expectEqual();
  await rig.stop();
});

const leftBehind = `select relname from pg_class where relnamespace = 'millrace'::regnamespace and relname ~ '^(copy|chunk|touched|seen|model)_' and relkind = 'r'
  union all select table_id::text from millrace.divided_copy`;

describe.each(["append_only", "dedup_by_row_hash"] as const)(
  "under keyless_table_strategy %s",
  (strategy) => {
    const streaming = (name: string) =>
      PipelineRig.streaming(
        server,
        `${name}_${strategy}`,
        {
          source: `create table keyless (a int, b text); alter table keyless replica identity full;
          insert into keyless select g, 'v' || g % 7 from generate_series(1, 300) g;
          create table root (id int primary key, v text) partition by range (id); create table leaf1 partition of root for values from (0) to (100);
          create table leaf2 partition of root for values from (100) to (1000); insert into root select g, 'v' from generate_series(1, 200) g;
          create table other (id serial primary key)`,
        },
        {
          sinkServer,
          parallelCopies: 5,
          source: { partitions_as_root: true, keyless_table_strategy: { [strategy]: {} } as never },
        },
      );
    const same = async (rig: PipelineRig) => {
      await rig.expectSame("select a, b from keyless order by a, b");
      await rig.expectSame("select id, v from root order by id");
      await rig.expectSame("select id from other order by id");
    };
    const spoil = (rig: PipelineRig) =>
      rig.sink(`delete from keyless where a < 20; update keyless set b = 'wrong' where a % 10 = 0;
      delete from root where id % 9 = 0; update root set v = 'wrong' where id % 7 = 0; insert into root values (999, 'extra')`);
    /** A task of the table, which is held when it is read. */
    const hold = async (rig: PipelineRig, table: string) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const read = rig.copies.length;
      rig.copiesHeld = promise;
      const task = rig.snapshot(table, table === "root");
      await waitFor("the table to be read", () => rig.copies.length > read);
      return { release: resolve, task };
    };
    const change = (rig: PipelineRig, n: number) =>
      rig.source(`insert into other default values; insert into keyless values (${1000 + n}, 'new'), (${2000 + n}, null);
      update keyless set b = 'later ${n}' where a between 30 and 40; delete from keyless where a = ${200 + n};
      update root set id = id + 500 where id = ${10 + n}; delete from root where id = ${50 + n}; update root set v = 'later' where id = 7`);

    // They have a key, whatever is done with those without one.
    testEveryDay(strategy === "append_only")("roots of partitions go beside the stream", async () => {
      await using rig = await streaming("besideroots");
      await same(rig);
      await spoil(rig);
      const { release, task } = await hold(rig, "root");
      await change(rig, 0);
      await rig.expectSame("select id from other order by id");
      expect(await rig.sink("select v from root where id = 7")).toEqual([{ v: "later" }]);
      release();
      expect(await task).toBeNull();
      await rig.expectSame("select id, v from root order by id");
      expect(await rig.sink(leftBehind)).toEqual([]);
      await rig.stop();
    });

    test("the stream waits for tables without a key, and whatever dies leaves them as they were", async () => {
      await using rig = await streaming("waitingkeyless");
      await same(rig);
      await spoil(rig);
      const rows = "select a, b from keyless order by a, b";
      const before = await rig.sink(rows);
      const dying = await hold(rig, "keyless");
      await change(rig, 0);
      // A reader sees nothing of it.
      expect(await rig.sink(rows)).toEqual(before);
      await rig.crash();
      dying.release();
      expect(await rig.sink(rows)).toEqual(before);
      rig.start();
      expect(await dying.task).not.toBeNull();
      const { release, task } = await hold(rig, "keyless");
      await change(rig, 1);
      release();
      expect(await task).toBeNull();
      await rig.expectSame(rows);
      expect(await rig.snapshot("root", true)).toBeNull();
      await same(rig);
      expect(await rig.sink(leftBehind)).toEqual([]);
      await rig.stop();
    });
  },
);

test("a task of a table without a key, while another one's ranges wait for the stream", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "waitingbesideranges",
    {
      source: `${movingRows("m", rows)}; create table keyless (a int, b text); alter table keyless replica identity full;
        insert into keyless select g, 'v' from generate_series(1, 300) g`,
    },
    { parallelCopies: 5, copyPace: inRanges },
  );
  await rig.expectEqual();
  await rig.sink("update m set text = 'wrong' where id % 11 = 0; delete from keyless where a < 9");
  {
    await using _moving = await moveRows(rig, "m", rows);
    for (let i = 0; i < (isWholeMatrix ? 5 : 2); i++) {
      const tasks = [rig.snapshot("m", true), rig.snapshot("keyless", false)];
      expect(await Promise.all(tasks)).toEqual([null, null]);
    }
  }
  await rig.expectEqual();
  expect(await rig.sink(leftBehind)).toEqual([]);
  await rig.stop();
});
