// The source's own types, made at a Postgres sink.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { fullConnection } from "../../support/api/connector-config.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const rig = (options: RigOptions = {}) =>
  PipelineRig.create(server, `ty${++count}`, { isSupervised: true, ...options });

/** Types of a table's columns at the sink, as they are called there. */
async function typesOf(pair: PipelineRig, table: string): Promise<string> {
  const rows = await pair.sink<{ type: string }>(
    `select format_type(atttypid, atttypmod) as type from pg_attribute where attrelid = '${table}'::regclass and attnum > 0
     and not attisdropped order by attnum`,
  );
  return rows.map(({ type }) => type).join(", ");
}

const types = `create schema app;
  create type app.mood as enum ('sad', 'ok', 'it''s');
  create domain app.short as varchar(5) default 'x' not null constraint "few chars" check (length(value) < 5);
  create domain app.shorter as app.short check (value <> 'no');
  create type app.point3 as (x int, y numeric(6, 2), m app.mood);
  create type app.line3 as ("from" app.point3, stops app.point3[]);
  create type app.floats as range (subtype = float8, multirange_type_name = app.many_floats);`;
const columns =
  "m app.mood, ms app.mood[], s app.short, ss app.shorter, l app.line3, f app.floats, mf app.many_floats";

test("enums, domains, composites and ranges, in copies, the stream, new tables and new columns", async () => {
  await using pair = await rig();
  await pair.source(`${types} create table t (id int primary key, ${columns}, big text);
    alter table t alter big set storage external;
    insert into t values (1, 'ok', '{sad,it''s}', 'abc', 'a', row(row(1, 2.5, 'ok')::app.point3, array[row(3, 4, 'sad')]::app.point3[])::app.line3, '[1,2)', '{[1,2),[3,4)}', repeat('x', 9000))`);
  pair.start();
  await pair.untilRealtime();
  const names =
    "integer, app.mood, app.mood[], app.short, app.shorter, app.line3, app.floats, app.many_floats, text";
  expect(await typesOf(pair, "t")).toBe(names);
  await pair.source(`insert into t values (2, 'sad', null, 'b', 'b', null, null, null), (3, null, null, 'c', 'c', null, 'empty', '{}');
    update t set m = 'it''s' where id = 1; delete from t where id = 2; update t set id = 30 where id = 3;
    create type app.late as enum ('one'); create table u (id int primary key, v app.late); insert into u values (1, 'one')`);
  await pair.expectEqual();
  expect(await typesOf(pair, "u")).toBe("integer, app.late");
  await pair.source("create type app.later as (a app.late)");
  await pair.source("alter table u add w app.later; insert into u values (2, 'one', '(one)')");
  await pair.expectEqual();
  expect(await typesOf(pair, "u")).toBe("integer, app.late, app.later");
  await pair.source(
    'alter domain app.short drop constraint "few chars"; alter type app.point3 add attribute extra int',
  );
  await pair.source(
    "insert into t values (50, null, null, '12345', 'a', row(row(1, 2, 'ok', 9)::app.point3, null)::app.line3)",
  );
  await pair.expectEqual();
  await pair.stop();
});

/** What a domain at the sink demands of its values, and what it sets where there is none. */
const demands = `select not typnotnull and typdefault is null and not exists (select from pg_constraint where contypid = t.oid) as none
  from pg_type t where typname = 'soon'`;

test("a domain takes what the source's takes: its checks and its default are not evaluated at the sink", async () => {
  await using pair = await rig();
  await pair.source(`create domain soon as timestamptz default now() not null check (value > now());
    alter domain soon add constraint late check (value > '2000-01-01') not valid; create table t (id int primary key, v soon)`);
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (1, clock_timestamp() + interval '30 milliseconds')");
  await pair.expectEqual();
  expect(await typesOf(pair, "t")).toBe("integer, soon");
  await pair.source(
    "create domain filled as int default 7; alter table t add f filled; insert into t (id, v) values (2, now() + interval '1 day')",
  );
  await pair.expectEqual();
  expect(await pair.sink(demands)).toEqual([{ none: true }]);
  expect(pair.warnings).toEqual([]);
  await pair.stop();
});

test("a domain that was made with what the source's demands is freed of it", async () => {
  await using pair = await rig();
  await pair.source("create domain soon as timestamptz; create table t (id int primary key, v soon)");
  pair.start();
  await pair.untilRealtime();
  await pair.stop();
  await pair.sink(
    "alter domain soon set default now(); alter domain soon set not null; alter domain soon add check (value > now())",
  );
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (1, '2020-01-01'), (2, null)");
  await pair.expectEqual();
  expect(await pair.sink(demands)).toEqual([{ none: true }]);
  await pair.stop();
});

test("labels that are added and renamed while the stream goes on, and behind a backlog", async () => {
  await using pair = await rig();
  await pair.source(
    "create type mood as enum ('a', 'b'); create table t (id int primary key, m mood); insert into t values (1, 'a'), (2, 'b')",
  );
  pair.start();
  await pair.untilRealtime();
  await pair.source("alter type mood add value 'new' before 'b'");
  await pair.source("insert into t values (3, 'new')");
  await pair.expectEqual();
  await pair.source("alter type mood rename value 'a' to 'A'");
  await pair.source("insert into t values (4, 'A')");
  await pair.expectEqual();
  await pair.stop();
  await pair.source("insert into t values (5, 'b')");
  await pair.source("alter type mood rename value 'b' to 'B'");
  await pair.source("insert into t values (6, 'B')");
  pair.start();
  await pair.expectEqual();
  expect(await pair.sink<object>("select enum_range(null::mood)::text as labels")).toEqual([
    { labels: "{A,new,B}" },
  ]);
  await pair.stop();
});

test("in the schema that stands for theirs, or as text where they cannot be made", async () => {
  await using pair = await rig({ sink: { target_schema: "copy" } });
  await pair.source(`${types} create table t (id int primary key, ${columns}); insert into t values (1, 'ok', '{ok}', 'a', 'a', null, '[1,2)', null);
    create extension citext; create domain soft as citext;
    create table e (id int primary key, v soft, vs soft[]); insert into e values (1, 2, '{4}')`);
  pair.start();
  await pair.untilRealtime();
  expect(await typesOf(pair, "copy.t")).toBe(
    "integer, copy.mood, copy.mood[], copy.short, copy.shorter, copy.line3, copy.floats, copy.many_floats",
  );
  expect(await typesOf(pair, "copy.e")).toBe("integer, text, text");
  expect(pair.phases.at(-1)?.health).toMatchObject({ kind: "warning" });
  await pair.source(
    "insert into t values (2, 'sad', '{sad}', 'b', 'b', row(row(1, 2, 'ok')::app.point3, null)::app.line3); insert into e values (2, 4, null)",
  );
  const rows = async (query: Promise<{ row: string }[]>) => (await query).map(({ row }) => row).join();
  const same = async (table: string) =>
    (await rows(pair.source(`select t::text as row from ${table} t order by id`))) ===
    (await rows(pair.sink(`select t::text as row from copy.${table} t order by id`)));
  await waitFor("the same rows", async () => (await same("t")) && (await same("e")));
  await pair.stop();
});

test("from and into schemas whose names are keywords", async () => {
  await using pair = await rig({ sink: { target_schema: "user" } });
  await pair.source(`create schema "order"; create type "order".mood as enum ('sad', 'ok'); create type "order"."group" as ("from" "order".mood);
    create table t (id int primary key, m "order".mood, ms "order".mood[], g "order"."group"); insert into t values (1, 'ok', '{sad}', '(ok)')`);
  pair.start();
  await pair.untilRealtime();
  expect(await typesOf(pair, '"user".t')).toBe('integer, "user".mood, "user".mood[], "user"."group"');
  await pair.source("insert into t values (2, 'sad', null, '(sad)')");
  const rows = async () =>
    (await pair.sink<{ row: string }>('select t::text as row from "user".t order by id')).map(
      ({ row }) => row,
    );
  await waitFor("both rows", async () => (await rows()).length === 2);
  expect(await rows()).toEqual(['(1,ok,{sad},"(ok)")', '(2,sad,,"(sad)")']);
  expect(pair.phases.at(-1)?.health?.kind).not.toBe("warning");
  await pair.stop();
});

test("without copies a renamed label stands beside the old one, which rows may still come with", async () => {
  await using pair = await rig({ skipSnapshots: true });
  await pair.source("create type mood as enum ('a', 'b'); create table t (id int primary key, m mood)");
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (1, 'a')");
  await pair.expectEqual();
  await pair.stop();
  await pair.source("insert into t values (2, 'a')");
  await pair.source("alter type mood rename value 'a' to 'A'");
  await pair.source("insert into t values (3, 'A')");
  pair.start();
  await waitFor("the rows", async () => (await pair.sink("select from t")).length === 3);
  expect(await pair.sink<object>("select m::text from t order by id")).toEqual([
    { m: "a" },
    { m: "a" },
    { m: "A" },
  ]);
  await pair.stop();
});

test("labels that are renamed where the sink's type, or another in its place, is somebody's own: the tables are copied again", async () => {
  await using pair = await rig();
  await pair.source(
    `create type mood as enum ('a', 'b'); create table t (id int primary key, m mood); insert into t values (1, 'a');
     create type feel as enum ('a', 'b'); create table u (id int primary key, f feel); insert into u values (1, 'a')`,
  );
  await pair.sink(
    "create type mood as enum ('a', 'b'); create table t (id int primary key, m mood); create table u (id int primary key, f text)",
  );
  pair.start();
  await pair.untilRealtime();
  await pair.expectEqual();
  await pair.source("alter type mood rename value 'a' to 'A'; alter type feel rename value 'a' to 'A'");
  await pair.expectEqual();
  await pair.stop();
});

test("types that are made anew under their names, and composites whose attributes go, are renamed or get other types", async () => {
  await using pair = await rig();
  await pair.source(
    `create domain amount as int; create type pair as (x int, y int); create type pairs as (list pair[]);
     create table t (id int primary key, a amount, p pair, ps pair[]); insert into t values (1, 1, (1, 2), array[(3, 4)::pair]);
     create table u (id int primary key, v pairs not null); insert into u values (1, row(array[(1, 2)::pair]))`,
  );
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (2, 2, (3, 4), null)");
  await pair.expectEqual();
  await pair.source(
    "alter table t drop ps; alter table u drop v; drop type pairs; alter type pair drop attribute x",
  );
  await pair.source("insert into t values (3, 3, row(5)); insert into u values (2)");
  await pair.expectEqual();
  await pair.stop();
  await pair.source("insert into t values (4, 4, row(6))");
  await pair.source(
    `alter table t drop a; drop domain amount; create domain amount as text; alter table t add a amount default 'none';
     alter type pair rename attribute y to z; alter table t alter p type text; alter type pair alter attribute z type text;
     alter table t alter p type pair using p::pair`,
  );
  await pair.source("insert into t values (5, row('text'), 'much')");
  pair.start();
  await pair.expectEqual();
  expect(await typesOf(pair, "t")).toBe("integer, pair, amount");
  await pair.stop();
  pair.start();
  await pair.untilRealtime();
  const old = "select from pg_type where typname like 'millrace_replaced%' and typtype = 'd'";
  expect(await pair.sink(old)).toEqual([]);
  await pair.stop();
});

test("types that are made anew where the sink's is somebody's own: the table is set aside until its column is text", async () => {
  await using pair = await rig();
  const pairType = "create type pair as (x int, y int)";
  await pair.source(
    `${pairType}; create table t (id int primary key, p pair); insert into t values (1, (1, 2)); create table u (id int primary key)`,
  );
  await pair.sink(pairType);
  pair.start();
  await pair.untilRealtime();
  await pair.expectEqual();
  await pair.source("alter type pair drop attribute x; insert into t values (2, row(5))");
  await waitFor("the table to be set aside", () => pair.setAside.some(({ name }) => name === "t"));
  await pair.source("insert into u values (1)");
  await pair.expectSame("select id from u");
  const [aside] = pair.setAside;
  expect(aside?.commands).toEqual(['alter table "public"."t" alter column "p" type text using "p"::text']);
  await pair.sink(aside?.commands.join() ?? "");
  await pair.expectSame("select id, p::text as p from t order by id");
  await waitFor("no table to be set aside", () => pair.setAside.length === 0);
  await pair.stop();
});

/** A range from 9 down to 3, and one whose bounds "C" and an ICU locale order otherwise. */
const downward = `create function upside_down(int, int) returns int language sql immutable as 'select btint4cmp($2, $1)';
  create operator class down_ops for type int using btree as operator 1 >, operator 2 >=, operator 3 =, operator 4 <=, operator 5 <, function 1 upside_down(int, int);
  create type down as range (subtype = int, subtype_opclass = down_ops)`;
const named = `create type plain_text as range (subtype = text, collation = "C"); create type german as range (subtype = text, collation = "de-x-icu");
  create type bytewise as range (subtype = text, subtype_opclass = text_pattern_ops, collation = "C", multirange_type_name = many_bytewise)`;

test("ranges whose order the sink can have are made there, and others are text", async () => {
  await using pair = await rig();
  await server.query(`drop database "${pair.sinkDatabase}"`);
  await server.query(
    `create database "${pair.sinkDatabase}" template template0 encoding utf8 locale_provider icu icu_locale 'en' locale 'C'`,
  );
  await pair.source(`${downward}; ${named}; create type usual as range (subtype = text); create type downs as (d down);
    create table t (id int primary key, p plain_text, g german, b bytewise, bs many_bytewise, u usual, d down, ds downs)`);
  pair.start();
  await pair.untilRealtime();
  await pair.source(
    `insert into t values (1, '[B,a]', '[a,B]', '[B,a]', '{[B,a]}', '[B,a]', '[9,3]', row('[9,3]')), (2, null, null, null, null, null, null, null)`,
  );
  await pair.expectSame(
    "select id, p::text, g::text, b::text, bs::text, u::text, d::text, ds::text from t order by id",
  );
  expect(await typesOf(pair, "t")).toBe(
    "integer, plain_text, german, bytewise, many_bytewise, text, text, text",
  );
  const warnings = pair.warnings.join();
  expect(warnings).toContain(
    'Run, before the tables are made: create type "public"."down" as range (subtype = integer, subtype_opclass = public.down_ops,',
  );
  expect(warnings).toMatch(
    /Type public\.usual cannot be made [^:]+: its text has another locale or encoding there\.(?! Run)/,
  );
  await pair.stop();
});

test("a range of the same name that somebody has made with another order: the table is set aside until its column is text", async () => {
  await using pair = await rig();
  await pair.source(`${downward}; create table t (id int primary key, d down)`);
  await pair.sink("create type down as range (subtype = int)");
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (1, '[9,3]')");
  await waitFor("the table to be set aside", () => pair.setAside.some(({ name }) => name === "t"));
  const [aside] = pair.setAside;
  expect(aside?.commands).toEqual(['alter table "public"."t" alter column "d" type text using "d"::text']);
  await pair.sink(aside?.commands.join() ?? "");
  await pair.expectSame("select id, d::text from t");
  await pair.stop();
});

/** A connector from another source to the sink of `first`. */
const beside = (first: PipelineRig) =>
  rig({ sink: { connection: fullConnection(server.connection(first.sinkDatabase)) } });

/** With a table that has a row of each label of a type `status`. */
async function startWithStatus(pair: PipelineRig, table: string, one: string, other: string): Promise<void> {
  await pair.source(`create type status as enum ('${one}', '${other}'); create table ${table} (id int primary key, s status);
    insert into ${table} values (1, '${one}'), (2, '${other}')`);
  pair.start();
  await pair.untilRealtime();
}

test("enums of one name and of two sources: neither connector renames the other's labels", async () => {
  await using first = await rig();
  await startWithStatus(first, "t", "open", "closed");
  await using second = await beside(first);
  await startWithStatus(second, "u", "new", "done");
  const ofFirst = "select id, s::text as s from t order by id";
  const ofSecond = "select id, s::text as s from u order by id";
  const expectBoth = async () => {
    await first.expectSame(ofFirst);
    expect(await first.sink<object>(ofSecond)).toEqual(await second.source<object>(ofSecond));
  };
  await expectBoth();
  await first.source("insert into t values (3, 'open'); alter type status add value 'late'");
  await first.source("insert into t values (4, 'late')");
  await expectBoth();
  await first.source("alter type status rename value 'open' to 'opened'");
  await first.source("insert into t values (5, 'opened')");
  await expectBoth();
  await second.source("alter type status rename value 'done' to 'finished'");
  await second.source("insert into u values (3, 'finished')");
  await waitFor("the second's rows", async () =>
    Bun.deepEquals(await first.sink<object>(ofSecond), await second.source<object>(ofSecond)),
  );
  await expectBoth();
  await first.stop();
  await second.stop();
});

test("a label that gets the name of another one which is at the sink already: the tables are copied again", async () => {
  await using first = await rig();
  await startWithStatus(first, "t", "open", "closed");
  await using second = await beside(first);
  await startWithStatus(second, "u", "opened", "shut");
  const rows = "select id, s::text as s from t order by id";
  await first.source("alter type status rename value 'open' to 'opened'");
  await first.expectSame(rows);
  await first.stop();
  await first.source("alter type status rename value 'closed' to 'shut'; insert into t values (3, 'shut')");
  first.start();
  await first.expectSame(rows);
  const ofSecond = "select id, s::text as s from u order by id";
  expect(await first.sink<object>(ofSecond)).toEqual(await second.source<object>(ofSecond));
  await first.stop();
  await second.stop();
});

test("labels that are exchanged, or whose names others have got: the tables are copied again", async () => {
  await using pair = await rig();
  await pair.source(`create type mood as enum ('a', 'b', 'c'); create table t (id int primary key, m mood);
    insert into t values (1, 'a'), (2, 'b'), (3, 'c')`);
  pair.start();
  await pair.untilRealtime();
  const rows = "select id, m::text as m from t order by id";
  await pair.source(
    "begin; alter type mood rename value 'a' to 'x'; alter type mood rename value 'b' to 'a'; alter type mood rename value 'x' to 'b'; commit",
  );
  await pair.expectSame(rows);
  await pair.source("begin; alter type mood rename value 'c' to 'd'; alter type mood add value 'c'; commit");
  await pair.source("insert into t values (4, 'c')");
  await pair.expectSame(rows);
  await pair.stop();
});

test("composites of one name and of two sources: the type stays its maker's, and the other's table is set aside", async () => {
  await using first = await rig();
  await first.source(
    "create type pair as (x int, y int); create table t (id int primary key, p pair); insert into t values (1, (1, 2))",
  );
  first.start();
  await first.untilRealtime();
  await using second = await beside(first);
  await second.source(`create type pair as (a text); create table u (id int primary key, p pair);
    insert into u values (1, row('x')); create table v (id int primary key)`);
  second.start();
  await waitFor("the table to be set aside", () => second.setAside.some(({ name }) => name === "u"));
  await second.untilRealtime();
  await second.source("insert into v values (1)");
  await waitFor("the other table", async () => (await first.sink("select from v")).length === 1);
  expect(second.setAside[0]?.reason).toContain("public.pair");
  await first.source("insert into t values (2, (3, 4))");
  await first.expectEqual();
  expect(await typesOf(first, "t")).toBe("integer, pair");
  await first.sink(second.setAside[0]?.commands.join("; ") ?? "");
  const rows = "select id, p::text as p from u order by id";
  await waitFor("the second's rows", async () =>
    Bun.deepEquals(await first.sink<object>(rows).catch(() => []), await second.source<object>(rows)),
  );
  await first.stop();
  await second.stop();
});

test("a type of an earlier version, which recorded no connector, is the first one's that has the same", async () => {
  await using pair = await rig();
  await pair.source(
    "create type mood as enum ('a', 'b'); create table t (id int primary key, m mood); insert into t values (1, 'a')",
  );
  pair.start();
  await pair.untilRealtime();
  await pair.stop();
  await pair.sink("alter table millrace.made_type drop connector_id, drop is_shared");
  pair.start();
  await pair.untilRealtime();
  await pair.source("alter type mood rename value 'a' to 'A'");
  await pair.source("insert into t values (2, 'A')");
  await pair.expectEqual();
  const labels = "select enum_range(null::mood)::text as labels";
  expect(await pair.sink<object>(labels)).toEqual([{ labels: "{A,b}" }]);
  await pair.stop();
  await pair.sink("alter table millrace.made_type drop connector_id, drop is_shared");
  await pair.source("alter type mood rename value 'b' to 'B'");
  await pair.source("insert into t values (3, 'B')");
  pair.start();
  await pair.expectEqual();
  expect(await pair.sink<object>(labels)).toEqual([{ labels: "{A,b,B}" }]);
  await pair.stop();
});

test("types of two schemas that would be one at the sink must be the same", async () => {
  await using pair = await rig({ isSupervised: false, sink: { target_schema: "copy" } });
  await pair.source(`create schema one; create type one.status as enum ('open', 'closed'); create table one.t (id int primary key, s one.status);
    create schema two; create type two.status as enum ('open', 'closed'); create table two.u (id int primary key, s two.status);
    insert into one.t values (1, 'open'); insert into two.u values (1, 'closed')`);
  pair.start();
  await pair.untilRealtime();
  expect(
    await pair.sink<object>("select t.s::text as t, u.s::text as u from copy.t join copy.u using (id)"),
  ).toEqual([{ t: "open", u: "closed" }]);
  await pair.stop();
  await pair.source("alter type two.status rename value 'open' to 'new'");
  pair.start();
  const refusal = await pair.ended();
  expect(refusal).toMatchObject({ code: "sink_schema_mismatch" });
  expect(String(refusal)).toContain(
    "Types one.status and two.status of the source would both be copy.status at the sink",
  );
  expect(await pair.sink<object>("select s::text from copy.t")).toEqual([{ s: "open" }]);
});
