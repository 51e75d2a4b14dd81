// What is compared of tables whose two sides are not alike, and what is said of tables that cannot be compared.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Catalog } from "../../../src/connector/config/catalog.ts";
import { variants } from "../../support/matrix.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { encodedServer } from "../../support/servers/encoded-server.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const streaming = (sql: { readonly source: string; readonly sink?: string }, options: RigOptions = {}) =>
  PipelineRig.streaming(server, `kind${++count}`, sql, options);

const right = { ranges: 0, missing: 0, extra: 0, changed: 0 };

const anyTypes = `create type mood as enum ('sad', 'ok'); create domain positive as int check (value > 0); create type pair as (a int, b text);
  create table t (id int primary key, b bool, s smallint, l bigint, n numeric, m numeric(12,3), r real, d float8, c char(5), vc varchar(9), tx text,
    by bytea, dt date, ti time, ts timestamp, tz timestamptz, iv interval, u uuid, j json, jb jsonb, ia int[], ta text[], mo mood, po positive,
    pa pair, rg int4range, x xml, bi bit(5), ine inet, ln pg_lsn, mn money, nm name, pt point);
  insert into t select g, g % 2 = 0, g, g * 1000000000::int8, g / 3.0, g / 7.0, g / 3.0::real, g / 3.0::float8, 'c' || g, 'v' || g, E'a,b"c\\\\\\n' || g,
    decode('00ff', 'hex'), date '2020-01-01' + g, time '10:00' + g * interval '1 s', timestamp '2020-01-01' + g * interval '1 us',
    timestamptz '2020-01-01 00:00+05' + g * interval '1 day', g * interval '1 mon 2 d', md5(g::text)::uuid, ('{"a": ' || g || '}')::json,
    '{"b":1, "a":2}', array[g, null, 3], array['x,y', null, ''], 'ok', g, row(g, 'q"r')::pair, int4range(1, g + 1), '<a>b</a>', b'10101', '10.0.0.1/8',
    '0/ABC', 12.34, 'name', point(1.5, g) from generate_series(1, 100) g;
  insert into t (id) values (1000)`;

test("values of any type are equal to themselves", async () => {
  await using rig = await streaming({ source: anyTypes });
  expect(await rig.verify("t")).toMatchObject({ rows: 101, ...right });
  await rig.source("update t set n = 'NaN', d = '-Infinity', tz = 'infinity', ta = '{}' where id = 5");
  expect(await rig.verify("t")).toMatchObject(right);
  await rig.stop();
});

test("a key that only the sink calls equal to another one is another row's", async () => {
  await using rig = await streaming({
    source:
      "create table t (id text primary key, n int); insert into t select 'KEY' || g, g from generate_series(1, 2000) g",
    sink: "create extension citext; create table t (id citext primary key, n int)",
  });
  await rig.sink("update t set id = lower(id::text)");
  // In one round: none of the rows that were put back has gone with one of another key.
  expect(await rig.verify("t", "Apply")).toMatchObject({ missing: 2000, extra: 2000, changed: 0 });
  expect(await rig.verify("t")).toMatchObject({ rows: 2000, ...right });
  await rig.stop();
});

test("columns of other types, in another order, and of the sink's own", async () => {
  await using rig = await streaming({
    source: `create table t (id int primary key, a int, b numeric(10,2), c varchar(20), d timestamptz, e char(4), f text, g real);
      insert into t select g, g, g * 1.5, 'c' || g, timestamptz '2024-01-01' + g * interval '1.234567 s', 'e', '{"z":1,"a":' || g || '}', g / 3.0::real
      from generate_series(1, 500) g`,
    sink: "create table t (own text default 'mine', g float8, f jsonb, e text, d timestamptz(3), c text, b numeric(14,4), a bigint, id bigint primary key)",
  });
  expect(await rig.verify("t")).toMatchObject({ rows: 500, ...right });
  await rig.sink(
    "update t set own = 'other' where id = 1; update t set a = -1 where id = 2; update t set d = d + interval '1 ms' where id = 3",
  );
  const found = await rig.verify("t", "Apply");
  expect(found.sample.map(({ key, columns }) => `${key.id} ${columns.join()}`).toSorted()).toEqual([
    "2 a",
    "3 d",
  ]);
  expect(await rig.verify("t")).toMatchObject(right);
  expect(await rig.sink("select own from t where id in (1, 2) order by id")).toEqual([
    { own: "other" },
    { own: "mine" },
  ]);
  await rig.stop();
});

test("rows of the sink with keys that the source could not have are extra, and removed", async () => {
  await using rig = await streaming({
    source:
      "create table t (id int primary key, v text); insert into t select g, 'v' || g from generate_series(1, 300) g",
    sink: "create table t (id text primary key, v text)",
  });
  await rig.sink(`insert into t values ('none', 'x'), ('007', 'x'), ('99999999999', 'x'), ('400', 'x'); delete from t where id = '5';
    update t set v = 'wrong' where id = '7'`);
  const found = { missing: 1, extra: 4, changed: 1 };
  const dry = await rig.verify("t", "DryRun");
  expect(dry).toMatchObject(found);
  expect(dry.sample.filter(({ kind }) => kind === "Extra").map(({ key }) => key.id)).toContain("none");
  expect(await rig.verify("t", "Apply")).toMatchObject({ ...found, repaired: 6 });
  expect(await rig.verify("t")).toMatchObject({ rows: 300, ...right });
  await rig.expectEqual();
  await rig.stop();
});

const nullKeys = variants(
  [
    ["id text primary key", "id text", "null"],
    ["id int, l text, primary key (id, l)", "id int, l text", "7, null"],
  ],
  [["id int primary key", "id int", "null"]],
);

test.each(nullKeys)(
  "a row at the sink whose key is NULL is not overlooked: %s",
  async (source, sink, values) => {
    const value = source.includes("l text") ? "g, g" : "g";
    await using rig = await streaming({
      source: `create table t (${source}); insert into t select ${value} from generate_series(1, 300) g`,
      sink: `create table t (${sink})`,
    });
    expect(await rig.verify("t")).toMatchObject({ rows: 300, ...right });
    await rig.sink(`insert into t values (${values})`);
    const failure = await rig.verify("t").catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "sink_schema_mismatch" });
    const statement = /DELETE .*;/.exec((failure as Error).message)?.[0];
    await rig.sink(statement ?? "");
    expect(await rig.verify("t")).toMatchObject({ rows: 300, ...right });
    await rig.stop();
  },
);

test("hashed columns are compared by their hashes, also as a key, and excluded ones are left out", async () => {
  const column = (name: string, more: object) => ({ name, action: "Include" as const, ...more });
  const catalog: Catalog = {
    name: "db",
    default_action: "Include",
    column_hashing: { algorithm: "Sha256", salt: "pepper 'ü" },
    schemas: [
      {
        name: "public",
        action: "Include",
        tables: [
          {
            name: "t",
            action: "Include",
            history_enabled: false,
            columns: [
              column("mail", { hash: {} }),
              column("b", { hash: {} }),
              { name: "secret", action: "Exclude" },
            ],
          },
          {
            name: "u",
            action: "Include",
            history_enabled: false,
            columns: [column("mail", { hash: {} })],
          },
        ],
      },
    ],
  };
  await using rig = await streaming(
    {
      source: `create table t (mail text primary key, b bool, secret text, v int);
        insert into t select 'm' || g, nullif(g % 3 = 0, g = 9), 's', g from generate_series(1, 100) g;
        create table u (id int primary key, mail text); insert into u select g, 'm' || g from generate_series(1, 100) g`,
    },
    { source: { catalog } },
  );
  expect(await rig.verify("t")).toMatchObject({ rows: 100, ...right });
  await rig.sink(
    "update t set b = null where v = 3; update t set v = -1 where v = 4; delete from t where v = 5; insert into t values ('x', 'y', 6)",
  );
  const found = await rig.verify("t", "DryRun");
  expect(found).toMatchObject({ missing: 1, extra: 1, changed: 2, repaired: 0 });
  expect(found.sample.map(({ columns }) => columns.join()).toSorted()).toEqual(["", "", "b", "v"]);
  // For each piece the source would hash the whole table, while the stream waits.
  await expect(rig.verify("t", "Apply")).rejects.toMatchObject({
    code: "unsupported_kind",
    message: expect.stringContaining("Its key is hashed"),
  });
  expect(rig.copies.filter(({ part }) => part?.kind === "rows")).toEqual([]);
  expect(await rig.snapshot("t", true)).toBeNull();
  expect(await rig.verify("t")).toMatchObject(right);
  await rig.expectEqual();
  await rig.sink("update u set mail = 'wrong' where id < 4");
  expect(await rig.verify("u", "Apply")).toMatchObject({ changed: 3, repaired: 3 });
  await rig.expectEqual();
  await rig.stop();
});

test("rows that are keyed by their hash: equal ones count as one", async () => {
  await using rig = await streaming(
    {
      source:
        "create table t (a int, b text); insert into t select g % 10, 'b' from generate_series(1, 100) g",
    },
    { source: { keyless_table_strategy: { dedup_by_row_hash: {} } } },
  );
  expect(await rig.verify("t")).toMatchObject(right);
  await rig.sink("delete from t where a = 1; update t set b = 'x' where a = 2");
  expect(await rig.verify("t")).toMatchObject({ missing: 2, extra: 1, changed: 0 });
  await rig.stop();
});

test.each([
  ["LATIN1", "C"],
  ["UTF8", "C.UTF-8"],
])("a sink of encoding %s and collation %s", async (encoding, collation) => {
  const sinkServer = encodedServer(server, encoding, collation);
  await using rig = await streaming(
    {
      source:
        "create table t (k text primary key, v text); insert into t select 'ü' || g, 'é\\' || g from generate_series(1, 200) g",
    },
    { sinkServer },
  );
  expect(await rig.verify("t")).toMatchObject({ rows: 200, ...right });
  await rig.sink("update t set v = 'è' where k = 'ü7'");
  expect((await rig.verify("t", "Apply")).sample).toEqual([
    { key: { k: "ü7" }, kind: "Changed", columns: ["v"] },
  ]);
  expect(await rig.verify("t")).toMatchObject(right);
  await rig.stop();
});

test.each(variants([[14, 18]], [[18, 14]]))(
  "a source of version %d and a sink of version %d",
  async (sourceVersion, sinkVersion) => {
    await using older = await PostgresServer.start({ major: sourceVersion, settings: { fsync: "off" } });
    await using newer = await PostgresServer.start({ major: sinkVersion, settings: { fsync: "off" } });
    await using rig = await PipelineRig.streaming(
      older,
      "versions",
      { source: anyTypes },
      { sinkServer: newer },
    );
    expect(await rig.verify("t")).toMatchObject({ rows: 101, ...right });
    await rig.sink("update t set n = n + 0.1, ta = '{}' where id = 7");
    expect(await rig.verify("t", "Apply")).toMatchObject({ changed: 1, repaired: 1 });
    expect(await rig.verify("t")).toMatchObject(right);
    await rig.stop();
  },
);

test("a table without a key is compared as a whole, and mended by a copy alone", async () => {
  await using rig = await streaming({
    source: `create table t (a int, b text); alter table t replica identity full;
      insert into t select g % 10, 'b' from generate_series(1, 300) g`,
  });
  expect(await rig.verify("t")).toMatchObject({ rows: 300, ...right });
  await rig.sink(
    "delete from t where ctid in (select ctid from t where a = 1 limit 2); update t set b = 'x' where ctid in (select ctid from t where a = 2 limit 1)",
  );
  expect(await rig.verify("t")).toMatchObject({ missing: 3, extra: 1, changed: 0, sample: [] });
  await expect(rig.verify("t", "Apply")).rejects.toMatchObject({
    code: "unsupported_kind",
    message: expect.stringContaining("Snapshot task"),
  });
  await rig.stop();
});

test("partitions, each and as their root", async () => {
  for (const partitions_as_root of [false, true]) {
    await using rig = await streaming(
      {
        source: `create table t (id int, k int, v text, primary key (id, k)) partition by list (k);
          create table t1 partition of t for values in (1); create table t2 partition of t for values in (2);
          insert into t select g, 1 + g % 2, 'v' || g from generate_series(1, 200) g`,
      },
      { source: { partitions_as_root } },
    );
    const table = partitions_as_root ? "t" : "t1";
    expect(await rig.verify(table)).toMatchObject({ rows: partitions_as_root ? 200 : 100, ...right });
    await rig.sink(`update ${table} set v = 'wrong' where id in (10, 20)`);
    expect(await rig.verify(table, "Apply")).toMatchObject({ changed: 2, repaired: 2 });
    expect(await rig.verify(table)).toMatchObject(right);
    await rig.stop();
  }
});

test("names as Fivetran has them, and another schema", async () => {
  await using rig = await streaming(
    {
      source: `create table "MyTable" ("TheId" int primary key, "AValue" text); insert into "MyTable" select g, 'v' || g from generate_series(1, 100) g`,
    },
    {
      naming: { FivetranNaming: { schema_prefix: null, table_conflict: "Fail", column_conflict: "Fail" } },
    },
  );
  expect(await rig.verify("MyTable")).toMatchObject({ rows: 100, ...right });
  await rig.sink("update public.my_table set a_value = 'wrong' where the_id = 3");
  const found = await rig.verify("MyTable", "DryRun");
  expect(found.sample).toEqual([{ key: { TheId: "3" }, kind: "Changed", columns: ["AValue"] }]);
  for (const statement of found.statements ?? []) await rig.sink(statement);
  expect(await rig.verify("MyTable")).toMatchObject(right);
  await rig.stop();
});

test("a sample of the rows", async () => {
  await using rig = await streaming({
    source: "create table t (id int primary key); insert into t select generate_series(1, 2000)",
  });
  const { rows } = await rig.verify("t", "None", { sample_percent: 10 });
  expect(rows).toBeGreaterThan(100);
  expect(rows).toBeLessThan(300);
  await rig.stop();
});

test("a table that is not there fails", async () => {
  await using rig = await streaming({ source: "create table t (id int primary key)" });
  await expect(rig.verify("gone")).rejects.toMatchObject({ code: "table_unavailable" });
  await rig.stop();
});
