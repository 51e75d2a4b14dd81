// Snapshot tasks beside the stream, of the kinds of tables that need care: those whose rows are made anew on their way, and those that
// are told apart by something else than their primary key.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Catalog } from "../../src/connector/config/catalog.ts";
import { moveRows, movingRows } from "../support/moving-rows.ts";
import { PipelineRig } from "../support/pipeline-rig.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

// Where rows go on moving, tasks take as long as the stream is behind.
setDefaultTimeout(120_000);

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

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

test("tables with foreign keys in force go beside the stream, in an order that satisfies them", async () => {
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
  await waitFor("tables to be read", () => rig.copies.length === read + 2);
  await rig.source("insert into child values (201, 1, 'new'); update parent set v = 'new' where id = 3");
  await waitFor("the change", async () => (await rig.sink("select from child where id = 201")).length > 0);
  resolve();
  expect(await Promise.all(first)).toEqual([null, null]);
  expect(await rig.snapshot("child", true)).toBeNull();
  expect(await rig.snapshot("parent", true)).toBeNull();
  await rig.expectEqual();
  await rig.stop();
});

const kept =
  "select (select count(*)::int from millrace.held_table) as tables, (select count(*)::int from millrace.held_change) as changes";

test.each(["append_only", "dedup_by_row_hash"] as const)(
  "tables without a key (%s), and roots of partitions, go beside the stream",
  async (strategy) => {
    await using rig = await PipelineRig.streaming(
      server,
      `besidekeyless_${strategy}`,
      {
        source: `create table keyless (a int, b text); alter table keyless replica identity full;
        insert into keyless select g, 'v' || g % 7 from generate_series(1, 300) g;
        create table root (id int primary key, v text) partition by range (id); create table leaf1 partition of root for values from (0) to (100);
        create table leaf2 partition of root for values from (100) to (1000); insert into root select g, 'v' from generate_series(1, 200) g;
        create table other (id serial primary key)`,
      },
      {
        parallelCopies: 5,
        source: { partitions_as_root: true, keyless_table_strategy: { [strategy]: {} } as never },
      },
    );
    const same = async () => {
      await rig.expectSame("select a, b from keyless order by a, b");
      await rig.expectSame("select id, v from root order by id");
    };
    await same();
    const spoil = () =>
      rig.sink(`delete from keyless where a < 20; update keyless set b = 'wrong' where a % 10 = 0;
      delete from root where id % 9 = 0; update root set v = 'wrong' where id % 7 = 0`);
    // One at a time: source and sink are one server here, where a copy's transaction holds up the next point.
    const hold = async (table: string) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const read = rig.copies.length;
      rig.copiesHeld = promise;
      const task = rig.snapshot(table, table === "root");
      await waitFor("the table to be read", () => rig.copies.length > read);
      return { release: resolve, task };
    };
    const change = (n: number) =>
      rig.source(`insert into other default values; insert into keyless values (${1000 + n}, 'new'), (${2000 + n}, null);
      update keyless set b = 'later ${n}' where a between 30 and 40; delete from keyless where a = ${200 + n};
      update root set id = id + 500 where id = ${10 + n}; delete from root where id = ${50 + n}; update root set v = 'later' where id = 7`);

    await spoil();
    for (const [n, table] of ["root", "keyless"].entries()) {
      const { release, task } = await hold(table);
      await change(n);
      await rig.expectSame("select id from other order by id");
      release();
      expect(await task).toBeNull();
    }
    await same();
    expect(await rig.sink(kept)).toEqual([{ tables: 0, changes: 0 }]);

    // What was kept for a copy that dies is applied by the next run.
    const dying = await hold("keyless");
    await change(3);
    await rig.expectSame("select id from other order by id");
    expect(await rig.sink(kept)).not.toEqual([{ tables: 0, changes: 0 }]);
    await rig.crash();
    dying.release();
    rig.start();
    await same();
    await waitFor("nothing to be kept", async () =>
      Bun.deepEquals(await rig.sink(kept), [{ tables: 0, changes: 0 }]),
    );
    await rig.stop();
  },
);
