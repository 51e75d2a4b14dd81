// Snapshot tasks beside the stream, of the kinds of tables that need care: those whose rows are made anew on their way, and those that
// are told apart by something else than their primary key.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Catalog } from "../../src/connector/catalog.ts";
import { PostgresServer } from "../../src/demo/postgres-server.ts";
import { moveRows, movingRows } from "../support/moving-rows.ts";
import { PipelineRig } from "../support/pipeline-rig.ts";
import { waitFor } from "../support/wait-for.ts";

setDefaultTimeout(60_000);

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
