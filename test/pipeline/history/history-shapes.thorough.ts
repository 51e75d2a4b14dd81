// Histories of tables that are altered, renamed, partitioned or oddly named, and histories that somebody has altered.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { catalogOf, told, untilTold, withHistory } from "../../support/oracles/history-tables.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const streaming = (source: string, options: RigOptions = {}, sink?: string) =>
  PipelineRig.streaming(
    server,
    `shapes${++count}`,
    { source, sink },
    { ...options, source: { catalog: withHistory("t"), ...options.source } },
  );

const columnsOf = async (rig: PipelineRig, table: string) => {
  const rows = await rig.sink<{ column: string }>(
    `select attname || ' ' || format_type(atttypid, atttypmod) as column from pg_attribute
     where attrelid = '${table}'::regclass and attnum > 0 and not attisdropped and attname !~ '^_sm_' order by attnum`,
  );
  return rows.map(({ column }) => column);
};

test("columns come, go, are renamed, and change their types", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, a text, b text, n numeric(10,2)); insert into t values (1, '7', 'x', 1.50), (2, 'eight', 'y', 2.25)",
  );
  await untilTold(rig, "id", "t_history", 2);
  await rig.source("alter table t add c int default 5; insert into t values (3, '9', 'z', 3, 6)");
  // A row from before the column shows what the source gave it.
  expect(await untilTold(rig, "id, c", "t_history", 3)).toEqual(["r 1|5", "r 2|5", "c 3|6"]);
  await rig.source("alter table t drop b; alter table t rename c to d; update t set a = '8' where id = 2");
  expect(await untilTold(rig, "id, a, b, d", "t_history", 4)).toEqual([
    ...["r 1|7|x|5", "r 2|eight|y|5", "c 3|9|z|6", "u 2|8|~|5"],
  ]);
  // No text comes back from a number: the column stays under another name.
  await rig.source(
    "alter table t alter a type int using a::int; alter table t alter n type numeric(12,4); insert into t values (4, 10, 4, 7)",
  );
  const rows = await untilTold(rig, "id, a, n, d", "t_history", 8);
  expect(await columnsOf(rig, "t_history")).toEqual([
    ...["id integer", "a_before_1 text", "b text", "n numeric(12,4)", "d integer", "a integer"],
  ]);
  expect(rows.slice(4).toSorted()).toEqual([
    "c 4|10|4.0000|7",
    "r 1|7|1.5000|5",
    "r 2|8|2.2500|5",
    "r 3|9|3.0000|6",
  ]);
  expect(
    await rig.sink(
      "select a_before_1 as a from t_history where a_before_1 is not null order by _sm_lsn, _sm_ordinal",
    ),
  ).toEqual([...[{ a: "7" }, { a: "eight" }, { a: "9" }, { a: "8" }]]);
  // A new column has the name of one that is gone.
  await rig.source("alter table t add b int; insert into t values (5, 1, 1, 1, 2)");
  expect((await untilTold(rig, "id, b, b_before_1", "t_history", 9)).slice(8)).toEqual(["c 5|2|~"]);
  expect(await columnsOf(rig, "t_versions")).toEqual([
    ...["id integer", "a integer", "n numeric(12,4)", "d integer", "b integer"],
    ...["valid_from timestamp with time zone", "valid_to timestamp with time zone", "is_current boolean"],
  ]);
  await rig.expectEqual();
});

test("a view that somebody has made keeps its columns, and the one of versions its privileges", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, a int); insert into t values (1, 1)",
  );
  await untilTold(rig, "id", "t_history", 1);
  await rig.sink(`do $$ begin if not exists (select from pg_roles where rolname = 'analyst') then create role analyst; end if; end $$;
    grant select on t_versions to analyst; create view mine as select a from t_history`);
  await rig.source("alter table t alter a type bigint; update t set a = 2");
  expect(await untilTold(rig, "id, a, a_before_1", "t_history", 2)).toEqual(["r 1|~|1", "u 1|2|~"]);
  expect(await rig.sink("select a from mine order by a nulls last limit 1")).toEqual([{ a: 1 }]);
  expect(await rig.sink("select has_table_privilege('analyst', 't_versions', 'select') as may")).toEqual([
    { may: true },
  ]);
});

test("the primary key changes", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, k int not null); insert into t values (1, 10), (2, 20)",
  );
  await untilTold(rig, "id", "t_history", 2);
  await rig.source(
    "alter table t drop constraint t_pkey; alter table t add primary key (k); delete from t where k = 10; insert into t values (5, 50)",
  );
  expect((await untilTold(rig, "id, k", "t_history", 4)).slice(2)).toEqual(["d 1|10", "c 5|50"]);
  await rig.expectEqual();
  expect(
    await rig.sink(
      "select pg_get_indexdef(indexrelid) ~ '\\(k, _sm_lsn, _sm_ordinal\\)' as k from pg_index where indrelid = 't_history'::regclass and not indisunique and indpred is null",
    ),
  ).toEqual([{ k: true }]);
});

test("a table is renamed, with another that takes its name", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v text); insert into t values (1, 'old')",
  );
  await untilTold(rig, "id", "t_history", 1);
  await rig.source(
    "alter table t rename to former; create table t (id int primary key, v text); insert into t values (1, 'new'); update former set v = 'moved'",
  );
  expect(await untilTold(rig, "id, v", "former_history", 2)).toEqual(["r 1|old", "u 1|moved"]);
  expect((await untilTold(rig, "id, v", "t_history", 1)).slice(0, 1).map((row) => row.slice(2))).toEqual([
    "1|new",
  ]);
  expect(await rig.sink("select v from former_versions where is_current")).toEqual([{ v: "moved" }]);
  await rig.source("update t set v = 'newer'");
  await waitFor(
    "the view",
    async () =>
      (await rig.sink<{ v: string }>("select v from t_versions where is_current"))[0]?.v === "newer",
  );
});

test("switched off, and on again: what changed meanwhile is a difference", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v int); insert into t values (1, 1), (2, 2), (3, 3)",
  );
  await untilTold(rig, "id", "t_history", 3);
  await rig.stop();
  rig.reconfigure({ catalog: catalogOf([{ name: "t", history_enabled: false }]) });
  rig.start();
  await rig.source(
    "update t set v = 10 where id = 1; update t set v = 11 where id = 1; delete from t where id = 2; insert into t values (4, 4)",
  );
  await rig.expectEqual();
  expect((await told(rig, "id, v", "t_history")).length).toBe(3);
  await rig.stop();
  rig.reconfigure({ catalog: withHistory("t") });
  rig.start();
  const rows = await untilTold(rig, "id, v", "t_history", 6);
  expect(rows.slice(3).toSorted()).toEqual(["d 2|2", "r 1|11", "r 4|4"]);
  await rig.source("update t set v = 12 where id = 1");
  expect((await untilTold(rig, "id, v", "t_history", 7)).slice(6)).toEqual(["u 1|12"]);
});

test("a table of somebody else's has the name: the table is set aside until it is free", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v int); create table o (id int primary key); insert into t values (1, 1); insert into o values (1)",
    {},
    "create table t_history (mine text); insert into t_history values ('kept')",
  );
  await waitFor("it to be set aside", async () => rig.setAside.length === 1);
  expect(rig.setAside[0]).toMatchObject({
    name: "t",
    commands: ['alter table "public"."t_history" rename to "t_history_before_1"'],
  });
  expect(rig.setAside[0]?.reason).toContain("has the name of a history");
  await rig.source("insert into o values (2); insert into t values (2, 2)");
  await waitFor("the other", async () => (await rig.sink("select from o")).length === 2);
  await rig.sink(rig.setAside[0]!.commands[0]!);
  expect((await untilTold(rig, "id, v", "t_history", 2)).toSorted()).toEqual(["r 1|1", "r 2|2"]);
  expect(await rig.sink("select mine from t_history_before_1")).toEqual([{ mine: "kept" }]);
});

test("a column comes that has the name of one of the history's own: the table is set aside, and its history stays as it is", async () => {
  await using rig = await streaming("create table t (id int primary key); insert into t values (1)");
  await untilTold(rig, "id", "t_history", 1);
  const own =
    "select format_type(atttypid, atttypmod) as type from pg_attribute where attrelid = 't_history'::regclass and attname = '_sm_lsn'";
  const before = await rig.sink(own);
  await rig.source("alter table t add _sm_lsn text");
  // Before any row of that shape.
  const isSame = async () => Bun.deepEquals(await rig.sink(own), before);
  await waitFor("it to be noticed", async () => rig.setAside.length === 1 || !(await isSame()));
  await rig.source("insert into t values (2, 'x')");
  await waitFor("it to be set aside", async () => rig.setAside.length === 1);
  expect(rig.setAside[0]?.reason).toContain("has a column _sm_lsn");
  expect(await rig.sink(own)).toEqual(before);
  await rig.source("alter table t drop _sm_lsn; insert into t values (3)");
  await waitFor("the table to come back", async () => rig.setAside.length === 0);
  await rig.expectEqual();
  await waitFor("the history to have both", async () => {
    const rows = await rig.sink("select from t_history where id in (2, 3)");
    return rows.length === 2;
  });
});

test("a table of the source has the name of a history: it is set aside, and the history goes on", async () => {
  await using rig = await streaming("create table t (id int primary key); insert into t values (1)");
  await untilTold(rig, "id", "t_history", 1);
  await rig.source(
    "create table t_history (id int primary key); insert into t_history values (7); insert into t values (2)",
  );
  await waitFor("it to be set aside", async () => rig.setAside.length === 1);
  expect(rig.setAside[0]?.reason).toContain("is the history of another table");
  expect(await untilTold(rig, "id", "t_history", 2)).toEqual(["r 1", "c 2"]);
});

test("a history that somebody has altered refuses a row: the table is set aside, with the SQL that mends it", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v text); insert into t values (1, 'a')",
  );
  await untilTold(rig, "id", "t_history", 1);
  await rig.sink("alter table t_history add constraint short check (length(v) < 5)");
  await rig.source("insert into t values (2, 'longer than that')");
  await waitFor("it to be set aside", async () => rig.setAside.length === 1);
  expect(rig.setAside[0]).toMatchObject({
    commands: ['alter table "public"."t_history" drop constraint "short"'],
  });
  await rig.source("insert into t values (3, 'b')");
  await rig.sink(rig.setAside[0]!.commands[0]!);
  await rig.expectEqual();
  expect((await untilTold(rig, "id", "t_history", 3)).slice(1).toSorted()).toEqual(["r 2", "r 3"]);
});

test("a history that somebody has dropped is made anew, with a warning", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v text); insert into t values (1, 'a')",
  );
  await untilTold(rig, "id", "t_history", 1);
  await rig.sink("drop table t_history cascade");
  await rig.source("insert into t values (2, 'b')");
  expect((await untilTold(rig, "id, v", "t_history", 2)).toSorted()).toEqual(["r 1|a", "r 2|b"]);
  expect(rig.warnings.join()).toContain("was dropped at the sink");
  await rig.source("update t set v = 'c' where id = 1");
  expect((await untilTold(rig, "id, v", "t_history", 3)).slice(2)).toEqual(["u 1|c"]);
});

test("a history that is divided by month takes rows, and loses months but for what is still there", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v text); insert into t values (1, 'a'), (2, 'b'), (3, 'old')",
  );
  await untilTold(rig, "id", "t_history", 3);
  await rig.stop();
  await rig.sink(`begin; alter table t_history rename to t_history_old;
    create table t_history (like t_history_old) partition by range (_sm_committed_at);
    alter table t_history add primary key (_sm_lsn, _sm_ordinal, _sm_committed_at);
    create index on t_history (id, _sm_lsn, _sm_ordinal);
    create index on t_history (_sm_lsn, _sm_ordinal) where _sm_op = 't';
    comment on table t_history is 'made by millrace: every change of a table, never rewritten';
    create table t_history_rest partition of t_history default;
    insert into t_history select * from t_history_old; drop table t_history_old cascade; commit`);
  rig.start();
  await rig.source("update t set v = 'c' where id = 1; delete from t where id = 2");
  expect((await untilTold(rig, "id, v", "t_history", 5)).slice(3)).toEqual(["u 1|c", "d 2|b"]);
  expect(await rig.sink("select id, v from t_versions where is_current order by id")).toEqual([
    { id: 1, v: "c" },
    { id: 3, v: "old" },
  ]);
  await rig.sink(`begin; alter table t_history detach partition t_history_rest;
    create table t_history_next partition of t_history default;
    insert into t_history select distinct on (m.id) m.* from t_history_rest m
      where m._sm_op <> 't' and not exists (select from t_history n where n.id = m.id)
      order by m.id, m._sm_lsn desc, m._sm_ordinal desc;
    delete from t_history where _sm_op = 'd';
    drop table t_history_rest; commit`);
  await rig.source("update t set v = 'd' where id = 3");
  expect((await untilTold(rig, "id, v", "t_history", 3)).toSorted()).toEqual(["r 3|old", "u 1|c", "u 3|d"]);
});

/** Of 59 bytes, so that the name of its history has to be cut. */
const odd = `we"ird ${"ö".repeat(24)} nam`;

test("hostile names, other schemas, generated, hashed and system columns", async () => {
  const columns = [
    { name: "secret", action: "Include" as const, hash: {} },
    { name: "left", action: "Exclude" as const },
  ];
  const table = { name: odd, action: "Include" as const, history_enabled: true, columns };
  await using rig = await PipelineRig.create(server, `shapes${++count}`, {
    source: {
      catalog: {
        name: "any",
        default_action: "Include",
        schemas: [{ name: 'o"ther', action: "Include", tables: [table] }],
        column_hashing: { algorithm: "Sha256", salt: "s" },
      },
      system_columns: { lsn: true, synced_at: true, op: { encoding: "Char", snapshot_as_read: true } },
    },
  });
  const name = `"o""ther"."${odd.replaceAll('"', '""')}"`;
  await rig.source(`create schema "o""ther"; create table ${name} ("i""d" int primary key, "Grp by" text, secret text, "left" text,
    g int generated always as ("i""d" * 2) stored); insert into ${name} ("i""d", "Grp by", secret, "left") values (1, 'a', 's', 'l')`);
  rig.start();
  const named = (like: string) =>
    rig.sink<{ name: string }>(
      `select format('%I.%I', n.nspname, relname) as name from pg_class c join pg_namespace n on n.oid = relnamespace
       where relname like '%${like}' and relkind in ('r', 'v') and nspname = 'o"ther'`,
    );
  await waitFor("the history", async () => (await named("\\_history")).length === 1);
  const [history] = await named("\\_history");
  const told = '"i""d", "Grp by", secret';
  await untilTold(rig, told, history!.name, 1);
  await rig.source(`update ${name} set "Grp by" = 'b'; update ${name} set "i""d" = 2; delete from ${name}`);
  const rows = await untilTold(rig, told, history!.name, 5);
  const hash = rows[0]?.split("|")[2];
  expect(rows).toEqual([`r 1|a|${hash}`, `u 1|b|${hash}`, `d 1|b|${hash}`, `u 2|b|${hash}`, `d 2|b|${hash}`]);
  expect(hash).not.toBe("s");
  const [versions] = await named("\\_versions");
  expect(
    await rig.sink(`select "Grp by" as v from ${versions!.name} where "i""d" = 1 order by valid_from`),
  ).toEqual([...[{ v: "a" }, { v: "b" }]]);
  await rig.stop();
});

test.each([true, false])("partitions, published by their root: %p", async (partitions_as_root) => {
  const names = partitions_as_root ? ["t"] : ["t1", "t2"];
  const tables = names.map((name) => ({ name, history_enabled: true }));
  await using rig = await streaming(
    "create table t (id int primary key, v text) partition by range (id); create table t1 partition of t for values from (0) to (10); " +
      "create table t2 partition of t for values from (10) to (20); insert into t values (1, 'a'), (11, 'b')",
    { source: { catalog: catalogOf(tables), partitions_as_root } },
  );
  const [first, second] = partitions_as_root ? ["t_history", "t_history"] : ["t1_history", "t2_history"];
  await untilTold(rig, "id", first!, partitions_as_root ? 2 : 1);
  await rig.source("update t set id = 12 where id = 1; delete from t where id = 11");
  if (partitions_as_root) {
    expect((await untilTold(rig, "id, v", "t_history", 5)).slice(2)).toEqual(["d 1|a", "c 12|a", "d 11|b"]);
    await rig.source("truncate t");
    await waitFor(
      "the end of the row",
      async () => (await rig.sink("select from t_versions where is_current")).length === 0,
    );
  } else {
    await rig.source("truncate t");
    expect(await untilTold(rig, "id, v", first!, 3)).toEqual(["r 1|a", "d 1|a", "t ~|~"]);
    expect(await untilTold(rig, "id, v", second!, 4)).toEqual(["r 11|b", "c 12|a", "d 11|b", "t ~|~"]);
  }
});

test("rows of a root with identity full are deleted and moved whole, though a leaf logs their key alone", async () => {
  await using rig = await streaming(
    `create table t (id int primary key, v text, big text, n int) partition by range (id); alter table t alter big set storage external;
     create table t1 partition of t for values from (0) to (10); create table t2 partition of t for values from (10) to (20);
     alter table t replica identity full; alter table t2 replica identity full;
     insert into t values (1, 'a', repeat('x', 3000), 1), (2, 'b', null, null), (3, null, null, null), (11, 'c', repeat('y', 3000), 4), (12, null, null, null)`,
    { source: { catalog: withHistory("t"), partitions_as_root: true } },
  );
  const columns = "id, v, length(big), n";
  await untilTold(rig, columns, "t_history", 5);
  await rig.source(
    "delete from t where id in (2, 3, 12); update t set id = id + 5, n = 7 where id in (1, 11)",
  );
  const rows = await untilTold(rig, columns, "t_history", 12);
  expect(rows.slice(5)).toEqual([
    ...["d 2|b|~|~", "d 3|~|~|~", "d 12|~|~|~"],
    ...["d 1|a|3000|1", "u 6|a|3000|7", "d 11|c|3000|4", "u 16|c|3000|7"],
  ]);
  await rig.expectEqual();
  expect(rig.copies).toHaveLength(1);
});

test("a table that is too wide for a history waits with advice, and one whose column the view has of its own has its history", async () => {
  const columns = Array.from({ length: 1_598 }, (_, i) => `c${i} int`).join(", ");
  await using rig = await PipelineRig.create(server, "historywide", {
    source: { catalog: withHistory("wide", "dated") },
    isSupervised: true,
  });
  await rig.source(`create table wide (${columns}); create table plain (id int primary key);
    create table dated (id int primary key, valid_to date); insert into dated values (1, '2026-01-01')`);
  rig.start();
  await waitFor("the advice", () =>
    rig.setAside.some(({ reason }) => reason.includes("at most 1600: exclude columns")),
  );
  await rig.source("insert into plain values (1); insert into dated values (2, null)");
  await rig.expectSame("select id from plain");
  await rig.expectSame("select id, valid_to from dated order by id");
  const isTold = () =>
    rig.warnings.some((reason) =>
      reason.includes("the table has a column valid_to, which the view has of its own"),
    );
  await waitFor("the view to be told of", isTold);
  const told = await untilTold(rig, "id", "dated_history", 2);
  expect(told.map((row) => row.slice(2)).toSorted()).toEqual(["1", "2"]);
  await rig.stop();
});
