// Whatever a transaction may do to rows: the sink's equal the source's afterwards.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { logicalReplication } from "../../support/api/connector-config.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off", max_prepared_transactions: 10 } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;

const streaming = (source: string, options: RigOptions = {}, at = server) =>
  PipelineRig.streaming(at, `exact${++count}`, { source }, options);

const items =
  "create table t (id int primary key, v text unique, n int); insert into t select g, 'v' || g, 0 from generate_series(1, 30) g";

/** What is done, to which tables, and what the sink has of them before. */
const cases: readonly [name: string, tables: string, changes: readonly string[], atSink?: string][] = [
  [
    "prepared transactions",
    items,
    [
      "begin; update t set n = 1; prepare transaction 'a'",
      "insert into t values (100, 'x', 1)",
      "commit prepared 'a'",
      "begin; delete from t; prepare transaction 'b'",
      "rollback prepared 'b'",
    ],
  ],
  [
    "savepoints that are rolled back, and thousands of subtransactions",
    items,
    [
      `begin; savepoint a; update t set n = 5; rollback to a; insert into t values (101, 'q', 1); savepoint b;
       delete from t where id < 5; release b; savepoint c; truncate t; rollback to c; commit`,
      `do $$ begin for i in 1..3000 loop begin insert into t values (1000 + i, 's' || i, i);
       if i % 3 = 0 then raise exception 'x'; end if; exception when others then null; end; end loop; end $$`,
    ],
  ],
  [
    "upserts, MERGE, row locks, updates of nothing, triggers, exchanged unique values",
    `${items}; create function bump() returns trigger language plpgsql as $$ begin new.n := new.n + 1; return new; end $$;
     create trigger bump before update on t for each row execute function bump()`,
    [
      `insert into t values (1, 'v1', 1) on conflict (id) do update set n = 9; insert into t values (2, 'v2') on conflict do nothing;
       merge into t using (values (3, 3), (300, 3)) s (id, n) on t.id = s.id
       when matched and s.id = 3 then delete when not matched then insert values (s.id, 'm', s.n)`,
      "begin; select * from t for update; update t set n = n; commit",
      "begin; update t set v = 'tmp' where id = 4; update t set v = 'v4' where id = 5; update t set v = 'v5' where id = 4; commit",
    ],
    "create table t (id int primary key, v text unique, n int)",
  ],
  [
    "keys that rotate in one statement, under a deferred constraint too",
    "create table d (id int primary key, u int not null unique deferrable initially deferred); insert into d select g, g from generate_series(1, 10) g",
    ["update d set u = 11 - u; begin; update d set id = -id; update d set id = 11 + id; commit"],
  ],
  [
    "nulls, signed zeros and NaN in rows that are matched whole",
    `create table f (a int, b text, c float8); alter table f replica identity full;
     insert into f values (null, 'x', '-0'), (null, 'x', 0), (null, 'x', 'nan'), (1, null, null)`,
    [
      `update f set b = 'y' where c = 'nan'; delete from f where ctid = (select max(ctid) from f where c = 0);
       update f set a = 2 where a = 1; update f set c = '-0' where c = 0`,
    ],
  ],
  [
    "COPY FREEZE's kind of rows, VACUUM FREEZE and VACUUM FULL",
    items,
    [
      "begin; truncate t; insert into t select g, 'w' || g, 1 from generate_series(1, 50) g; commit",
      "vacuum freeze t",
      "vacuum full t",
      "insert into t values (99, 'z', 1); delete from t where id = 5",
    ],
  ],
  [
    "changes that came from a subscription",
    items,
    [
      `select pg_replication_origin_create('o'); select pg_replication_origin_session_setup('o');
       update t set n = 3; select pg_replication_origin_session_reset(); select pg_replication_origin_drop('o')`,
    ],
  ],
  [
    "replica identities that change in the middle of a backlog",
    `create table t (id int primary key, u text not null, n int, big text); create unique index tu on t (u);
     alter table t alter big set storage external; insert into t select g, 'u' || g, 0, repeat('b', 3000) from generate_series(1, 40) g`,
    [
      `update t set n = 1 where id < 20; alter table t replica identity full; update t set n = 2 where id < 15; delete from t where id = 3;
       update t set id = 103 where id = 4; alter table t replica identity using index tu; update t set u = 'x' || u, n = 3 where id > 10;
       delete from t where id = 20; alter table t replica identity default; update t set n = 5, id = id + 1000 where id > 30; delete from t where id = 29`,
    ],
  ],
  [
    "TRUNCATE of several tables, CASCADE and RESTART IDENTITY among inserts",
    `create table a (id int generated always as identity primary key, v int); create table b (id int primary key, a int references a);
     create table c (id int primary key, b int references b); create table k (x int);
     insert into a (v) values (1), (2); insert into b values (1, 1); insert into c values (1, 1); insert into k values (1), (1)`,
    [
      `begin; insert into k values (2); truncate k, a restart identity cascade; insert into k values (3), (3); insert into a (v) values (9);
       insert into b values (5, 1); commit; begin; truncate b cascade; insert into b values (6, 1); truncate k; commit; truncate k; insert into k values (8)`,
    ],
  ],
  [
    "duplicates of a table without a key",
    "create table k (x int, y text); insert into k values (1, 'a'), (1, 'a')",
    [
      "insert into k values (1, 'a'), (null, null), (null, null); begin; insert into k values (2, 'b'); rollback",
    ],
  ],
];

/** Two values of a type that are one key. */
const equalKeys = [
  ["numeric", "1.0", "1.00"],
  ["float8", "'0'", "'-0'"],
  ["char(5)", "'a'", "'a  '"],
  ["citext", "'A'", "'a'"],
  ["text collate ci", "'A'", "'a'"],
  ["jsonb", "'1.0'", "'1.00'"],
  ["interval", "'1 day'", "'24 hours'"],
] as const;
const bothSides =
  "create extension citext; create collation ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";

describe.each([["binary"], ["text"]] as const)("in %s form", (form) => {
  // One pipeline for all of them, with a schema for each.
  let pair: PipelineRig;
  const inSchema = (name: string) => `create schema ${name}; set search_path to ${name}, public`;
  const inOrder = async (schema: string, changes: readonly string[]) => {
    await using client = await server.connect(pair.sourceDatabase);
    await client.query(`set search_path to ${schema}, public`);
    for (const sql of changes) await client.query(sql);
    await pair.expectEqual();
  };
  beforeAll(async () => {
    pair = await PipelineRig.create(server, `exact_${form}`, {
      forms: form === "binary" ? ["binary", "text"] : ["text"],
    });
    await Promise.all([pair.source(bothSides), pair.sink(bothSides)]);
    for (const [i, [, tables, , atSink]] of cases.entries()) {
      await pair.source(`${inSchema(`c${i}`)}; ${tables}`);
      if (atSink) await pair.sink(`${inSchema(`c${i}`)}; ${atSink}`);
    }
    const keyed = equalKeys.map(
      ([type, a], i) =>
        `create table t${i} (k ${type} primary key, v int); insert into t${i} values (${a}, 1)`,
    );
    await pair.source(`${inSchema("keys")}; ${keyed.join(";")}`);
    pair.start();
    await pair.untilRealtime();
  });
  afterAll(async () => {
    await pair.stop();
    expect(pair.warnings).toEqual([]);
    await pair[Symbol.asyncDispose]();
  });

  test.each(cases.map(([name], i) => [name, i] as const))("%s", async (_, i) => {
    await inOrder(`c${i}`, cases[i]![2]);
  });

  test("keys that are equal and print differently", async () => {
    const changes = equalKeys.flatMap(([, a, b], i) => [
      `begin; update t${i} set k = ${b} where k = ${a}; update t${i} set v = 7 where k = ${a}; delete from t${i} where k = ${b};
       insert into t${i} values (${a}, 9); update t${i} set k = ${b} where v = 9; commit`,
      `update t${i} set v = v + 1; insert into t${i} values (${b}, 5) on conflict (k) do update set k = ${a}, v = 11`,
    ]);
    await inOrder("keys", changes);
  });
});

test("what is not written to the log, or is no table, is left alone", async () => {
  await using pair =
    await streaming(`${items}; create unlogged table ul (id int primary key); insert into ul values (1);
    create materialized view mv as select * from t; create view vw as select * from t; create type ty as (id int, v text);
    create table typed of ty (primary key (id)); create extension file_fdw; create server fs foreign data wrapper file_fdw;
    create foreign table ft (x text) server fs options (filename '/dev/null'); create sequence sq`);
  await pair.source(`insert into ul values (2); insert into typed values (1, 'x'); refresh materialized view mv; select nextval('sq');
    select lo_from_bytea(0, 'abc'); create temporary table tt (x int); insert into tt values (1); insert into t values (55, 'u', 1)`);
  await pair.expectEqual();
  const names = await pair.sink<{ name: string }>(
    "select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind <> 'i' order by 1",
  );
  expect(names.map(({ name }) => name)).toEqual(["t", "typed"]);
  await pair.source("alter table ul set logged; insert into ul values (3)");
  await pair.source("update ul set id = 10 where id = 1");
  await pair.expectEqual();
  await pair
    .source("alter table typed set unlogged")
    .catch((error) => expect(String(error)).toContain("publication"));
  await pair.stop();
});

test("generated columns, stored, virtual and published ones", async () => {
  await using newest = await PostgresServer.start({ major: 18, settings: { fsync: "off" } });
  const table = `create table t (id int primary key, a int, g int generated always as (a * 2) stored,
    v int generated always as (a * 3) virtual); insert into t values (1, 1)`;
  const changes = "insert into t values (2, 2); update t set a = 9 where id = 1";
  await using plain = await streaming(table, {}, newest);
  await plain.source(changes);
  await plain.expectEqual();
  await plain.stop();
  await using published = await streaming(
    `${table}; create publication own for table t with (publish_generated_columns = stored)`,
    { source: { replication_type: { logical_replication: logicalReplication("own") } } },
    newest,
  );
  await published.source(changes);
  await published.expectEqual();
  await published.stop();
});

test("a row without a key that is changed between others does not cut what the others come to", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v text); create table bag (a int); alter table bag replica identity full; insert into bag values (0)",
  );
  await rig.sink(`create table statements (at int); create function noted() returns trigger language plpgsql as
    $$ begin insert into public.statements values (1); return null; end $$;
    create trigger noted after insert on t for each statement execute function noted(); alter table t enable always trigger noted`);
  const rows = 200;
  await rig.source(
    `do $$ begin for i in 1..${rows} loop insert into t values (i, 'v'); update bag set a = i; end loop; end $$`,
  );
  await rig.expectEqual();
  const [seen] = await rig.sink<{ statements: number }>("select count(*)::int as statements from statements");
  expect(seen?.statements).toBeLessThan(rows / 10);
  await rig.stop();
});
