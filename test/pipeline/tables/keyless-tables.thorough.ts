// Tables without a key under keyless_table_strategy dedup_by_row_hash: the sink holds each different row once.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { logicalReplication } from "../../support/api/connector-config.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const byHash = { keyless_table_strategy: { dedup_by_row_hash: {} } };
const create = (source: RigOptions["source"] = {}) =>
  PipelineRig.create(server, `keyless${++count}`, { source: { ...byHash, ...source } });

/** The sink holds the different rows of the source, each once, under a hash of its own. */
async function untilDistinct(rig: PipelineRig, columns: string, table = "t"): Promise<void> {
  const text = `row(${columns})::text as row`;
  const source = `select distinct ${text} from ${table} order by 1`;
  const sink = `select ${text} from ${table} order by 1`;
  const same = async () => Bun.deepEquals(await rig.source(source), await rig.sink(sink));
  await waitFor("the same rows", same).catch(() => {});
  expect(await rig.sink(sink)).toEqual(await rig.source(source));
  const hashes = await rig.sink<{ hash: string }>(`select _sm_row_hash as hash from ${table}`);
  expect(hashes.every(({ hash }) => /^[0-9a-f]{64}$/.test(hash))).toBe(true);
  const keys = await rig.sink(
    `select pg_get_constraintdef(oid) as key from pg_constraint where conrelid = '${table}'::regclass and contype = 'p'`,
  );
  expect(keys).toEqual([{ key: "PRIMARY KEY (_sm_row_hash)" }]);
}

const rows = `create type pair as (a int, b text);
  create table t (v text, n numeric, b bool, c char(4), p pair, j json);
  insert into t values ('a', 1.50, true, 'x', row(1, null), '{"a": 1}'), ('a', 1.50, true, 'x', row(1, null), '{"a": 1}'),
    (null, null, null, null, null, null), (null, null, null, null, row(null, null), null), ('', 0, false, '', null, null)`;

test("inserts: equal rows are one, from the copy, from the stream, and between them", async () => {
  await using rig = await create();
  await rig.source(rows);
  rig.start();
  await rig.untilRealtime();
  await rig.source(`insert into t select * from t; insert into t values ('b', 2), ('b', 2), ('a', 1.5);
    insert into t select 's' || g % 10 from generate_series(1, 500) g`);
  await untilDistinct(rig, "v, n, b, c, p, j");
  await rig.stop();
  await rig.source("insert into t values ('b', 2), ('c', 3)");
  rig.start();
  await untilDistinct(rig, "v, n, b, c, p, j");
  await rig.stop();
});

test("identity full: updates and deletes find their rows, with large values and hashed columns", async () => {
  const columns = [{ name: "secret", action: "Include" as const, hash: {} }];
  const tables = [{ name: "t", action: "Include" as const, history_enabled: false, columns }];
  await using rig = await create({
    catalog: {
      name: "db",
      default_action: "Include",
      column_hashing: { algorithm: "Sha256", salt: "s" },
      schemas: [{ name: "public", action: "Include", tables }],
    },
  });
  await rig.source(`create table t (n int, big text, secret text); alter table t alter big set storage external;
    alter table t replica identity full;
    insert into t select g, repeat(g::text, 5000), 'secret ' || g from generate_series(1, 6) g`);
  rig.start();
  await rig.untilRealtime();
  await rig.source(`update t set n = n + 100 where n <= 2; delete from t where n = 3; update t set secret = 'other' where n = 4;
    update t set big = 'short' where n = 5; update t set big = null where n = 6;
    insert into t values (7, null, null); update t set n = 70 where n = 7; update t set n = 71 where n = 70;
    insert into t values (101, repeat('1', 5000), 'secret 1')`);
  await untilDistinct(rig, "n, big", "t");
  const secrets = await rig.sink(
    "select n, secret = encode(sha256(convert_to('s' || 'other', 'UTF8')), 'hex') as is_hash from t where n = 4",
  );
  expect(secrets).toEqual([{ n: 4, is_hash: true }]);
  await rig.stop();
});

test("large bytea has the same hashes from the copy and from the stream, and is carried as it is", async () => {
  const columns = [{ name: "secret", action: "Include" as const, hash: {} }];
  const tables = [{ name: "t", action: "Include" as const, history_enabled: false, columns }];
  await using rig = await create({
    catalog: {
      name: "db",
      default_action: "Include",
      column_hashing: { algorithm: "Sha256", salt: "s" },
      schemas: [{ name: "public", action: "Include", tables }],
    },
  });
  const large = (text: string) => `decode(repeat(md5('${text}'), 40000), 'hex')`;
  for (const table of ["t", "u"]) {
    await rig.source(`create table ${table} (raw bytea, secret bytea, n int); alter table ${table} replica identity full;
      insert into ${table} values (${large("a")}, ${large("b")}, 1)`);
  }
  rig.start();
  await rig.untilRealtime();
  for (const table of ["t", "u"]) {
    await rig.source(`insert into ${table} values (${large("a")}, ${large("b")}, 1), (${large("c")}, ${large("d")}, 2);
      update ${table} set raw = ${large("e")}, secret = ${large("f")} where n = 2`);
  }
  await untilDistinct(rig, "md5(raw), n", "t");
  await untilDistinct(rig, "md5(raw), md5(secret), n", "u");
  const expected = `select n, encode(sha256(convert_to('s' || secret::text, 'UTF8')), 'hex') as secret from t group by 1, 2 order by n`;
  expect(await rig.sink("select n, secret from t order by n")).toEqual(await rig.source(expected));
  await rig.stop();
});

test("the same hash from the copy and from the stream", async () => {
  await using rig = await create();
  await rig.source(`${rows}; alter table t replica identity full`);
  rig.start();
  await rig.untilRealtime();
  // Found by their hash: what the copy wrote under another one would stay.
  await rig.source("update t set v = 'changed' where b is not true; delete from t where b");
  await untilDistinct(rig, "v, n, b, c, p, j");
  await rig.stop();
});

test("a table with a key, and one that gets a key, is carried by its key", async () => {
  for (const identity of ["default", "full"]) {
    await using rig = await create();
    await rig.source(`create table keyed (id int primary key, v int); insert into keyed values (1, 1), (2, 1);
      create table t (id int not null, v int); alter table t replica identity ${identity}; alter table keyed replica identity ${identity};
      insert into t values (1, 1), (1, 1), (2, 2)`);
    rig.start();
    await rig.untilRealtime();
    await untilDistinct(rig, "id, v");
    await rig.source(
      "delete from t; insert into t values (5, 5), (6, 6); alter table t add primary key (id); update t set v = 50 where id = 5",
    );
    if (identity === "full") {
      // The key is in the catalog alone: the run begins again when it is seen.
      expect(await rig.ended()).toMatchObject({ code: "table_changed", retry: "transient" });
      rig.start();
    }
    const hashes = () => rig.sink("select from pg_attribute where attname = '_sm_row_hash'");
    await waitFor("the hash to go", async () => (await hashes()).length === 0);
    await rig.expectEqual();
    await rig.stop();
  }
});

test("a table that gets a key is carried by it, though a task is the first to see it", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    `keyless${++count}`,
    {
      source:
        "create table t (id int not null); alter table t replica identity full; insert into t values (1)",
    },
    { source: byHash, pace: { tableCheckMs: 600_000 } },
  );
  await rig.source("alter table t add primary key (id)");
  expect(await rig.snapshot("t", false)).toMatchObject({ code: "table_changed" });
  expect(await rig.ended()).toMatchObject({ code: "table_changed" });
  rig.start();
  await rig.expectEqual();
  await rig.stop();
});

test("a column that is added makes other hashes: the table is copied again", async () => {
  await using rig = await create();
  await rig.source(
    "create table t (v text); alter table t replica identity full; insert into t values ('a'), ('b'), ('c')",
  );
  rig.start();
  await rig.untilRealtime();
  await rig.source(
    "alter table t add column w int default 5; delete from t where v = 'a'; insert into t values ('d', null)",
  );
  await untilDistinct(rig, "v, w").catch(() => {});
  await rig.source("update t set w = 6 where v = 'b'");
  await untilDistinct(rig, "v, w");
  await rig.stop();
});

test("from append_only to dedup_by_row_hash", async () => {
  await using rig = await create({ keyless_table_strategy: { append_only: {} } });
  await rig.source("create table t (v text); insert into t values ('a'), ('a'), ('b')");
  rig.start();
  await rig.untilRealtime();
  await rig.expectEqual();
  await rig.stop();
  rig.reconfigure(byHash);
  rig.start();
  await rig.untilRealtime();
  await rig.source("insert into t values ('b'), ('c')");
  await untilDistinct(rig, "v");
  await rig.stop();
});

test("a table of that column's own is refused", async () => {
  await using rig = await create();
  await rig.source("create table t (v text, _sm_row_hash text)");
  rig.start();
  expect(await rig.ended()).toMatchObject({
    code: "column_conflict",
    message: expect.stringContaining("public.t"),
  });
});

test("a keyed table of identity full that a publication for all tables brings by itself", async () => {
  await using rig = await create({ replication_type: { logical_replication: logicalReplication("every") } });
  await rig.source("create table t (id int primary key); create publication every for all tables");
  rig.start();
  await rig.untilRealtime();
  await rig.source(
    "create table u (id int primary key, v int); alter table u replica identity full; insert into u values (1, 1); update u set v = 2",
  );
  expect(await rig.ended()).toMatchObject({ code: "table_changed", retry: "transient" });
  rig.start();
  await rig.expectEqual();
  await rig.stop();
});

test("a crash in the middle doubles nothing", async () => {
  await using rig = await create();
  await rig.source("create table t (v int); insert into t select g % 50 from generate_series(1, 200) g");
  rig.start();
  await rig.untilRealtime();
  for (let i = 0; i < 3; i++) {
    await rig.source(`insert into t select g from generate_series(${i * 40}, ${i * 40 + 80}) g`);
    await rig.crash();
    rig.start();
  }
  await untilDistinct(rig, "v");
  await rig.stop();
});
