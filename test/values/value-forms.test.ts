// Where the sink's types are not what the source's are called: the form that is chosen carries the value, or the failure
// says what is wrong.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { MillraceError } from "../../src/errors/millrace-error.ts";
import { PipelineRig } from "../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;

async function between(
  sourceSql: string,
  sinkSql: string,
  sinkServer = server,
  isSupervised = false,
): Promise<PipelineRig> {
  const rig = await PipelineRig.create(server, `x${++count}`, { sinkServer, isSupervised });
  await rig.source(sourceSql);
  await rig.sink(sinkSql);
  rig.start();
  return rig;
}

test.each<[string, string, string, "binary" | "text"]>([
  [
    "a domain of the same name over another type",
    "create domain d as int4",
    "create domain d as float4",
    "text",
  ],
  [
    "a range of the same name over another type",
    "create type d as range (subtype = int4)",
    "create type d as range (subtype = numeric)",
    "text",
  ],
  [
    "a domain over another domain of the same bytes",
    "create domain d as int4",
    "create domain e as int4; create domain d as e",
    "binary",
  ],
  ["a type that is a composite at the sink", "create domain d as text", "create type d as (a text)", "text"],
])("%s", async (_, sourceSql, sinkSql, form) => {
  const value = sourceSql.includes("range") ? "'[1,5)'" : sinkSql.includes("(a text)") ? "'(x)'" : "'1'";
  await using rig = await between(
    `${sourceSql}; create table t (id int primary key, v d); insert into t values (1, ${value})`,
    sinkSql,
  );
  await rig.untilRealtime();
  await rig.source(`insert into t values (2, ${value}); update t set v = ${value} where id = 1`);
  await rig.expectEqual();
  await rig.stop();
  expect(rig.streamForms).toEqual([form]);
});

test("an enum whose labels the sink does not have gets them, before the copy and in the stream", async () => {
  await using rig = await between(
    "create type mood as enum ('good', 'new'); create table t (id int primary key, v mood); insert into t values (1, 'new')",
    "create type mood as enum ('good')",
    server,
    true,
  );
  await rig.untilRealtime();
  await rig.expectEqual();
  await rig.source("alter type mood add value 'other'");
  await rig.source("insert into t values (2, 'other')");
  await rig.expectEqual();
  await rig.stop();
});

test("a reference to an object that the sink lacks is refused by name, and carried where the column is text", async () => {
  await using rig = await between(
    `create table t (id int primary key, "v: ""x" regprocedure); insert into t values (1, 'abs(int4)')`,
    "select 1",
  );
  await rig.expectEqual();
  await rig.source("create function f() returns int language sql as 'select 1'");
  for (const sql of ["insert into t values (2, 'f()')", `update t set "v: ""x" = 'f()' where id = 1`]) {
    await rig.source(sql);
    const refused = (await rig.ended()) as MillraceError;
    expect(refused.code).toBe("sink_rejected_rows");
    expect(refused.message).toContain(`ALTER TABLE "public"."t" ALTER COLUMN "v: ""x" TYPE text;`);
    if (sql.startsWith("insert")) {
      await rig.sink("create function f() returns int language sql as 'select 1'");
      rig.start();
      await rig.expectEqual();
      await rig.sink("drop function f()");
    }
  }
  await rig.sink(`alter table t alter "v: ""x" type text`);
  rig.start();
  const carried = async () => (await rig.sink(`select from t where "v: ""x" = 'public.f()'`)).length === 1;
  await waitFor("the reference", carried);
  await rig.stop();
});

test("an infinite interval is not read as a finite one by a sink that knows none", async () => {
  await using older = await PostgresServer.start({ major: 16, settings: { fsync: "off" } });
  await using rig = await between(
    "create table t (id int primary key, v interval); insert into t values (1, '1 day')",
    "select 1",
    older,
  );
  await rig.expectEqual();
  await rig.source("insert into t values (2, 'infinity')");
  expect(await rig.ended()).toMatchObject({ code: "sink_rejected_rows" });
  expect(rig.streamForms).toEqual(["text"]);
});

test("keys that are equal and not the same", async () => {
  await using rig = await between(
    `create extension citext; create table c (k citext primary key, v text); create table n (k numeric primary key, v text);
     create table f (k float8 primary key, v text); alter table c alter v set storage external;
     insert into c values ('A', repeat('x', 5000)), ('b', 'y'); insert into n values (1.0, 'x'), (2, 'y'); insert into f values (0, 'x'), ('NaN', 'y')`,
    "create extension citext",
  );
  await rig.untilRealtime();
  await rig.source(
    "update c set k = 'a' where k = 'a'; update n set k = 1.00 where k = 1; update f set k = '-0' where k = 0",
  );
  await rig.expectEqual();
  await rig.source(
    `begin; update c set k = 'A' where k = 'a'; update c set v = 'z' where k = 'a'; delete from c where k = 'B'; insert into c values ('B', 'new');
     update n set k = 1.000, v = 'z' where k = 1; delete from n where k = 2; insert into n values (2.0, 'new');
     delete from f where k = 0; insert into f values (0, 'new'); update f set v = 'z' where k = 'NaN'; commit`,
  );
  await rig.expectEqual();
  await rig.stop();
});

test.each(["binary", "text"] as const)(
  "what a database has set changes no value, in %s form",
  async (form) => {
    await using rig = await PipelineRig.create(server, `x${++count}`, { forms: [form] });
    for (const database of [rig.sourceDatabase, rig.sinkDatabase]) {
      const settings = [
        ...[
          "datestyle = 'SQL, DMY'",
          "intervalstyle = sql_standard",
          "extra_float_digits = -5",
          "bytea_output = escape",
        ],
        ...[
          "timezone = 'Asia/Kathmandu'",
          "quote_all_identifiers = on",
          "xmloption = document",
          "array_nulls = off",
        ],
        ...[
          "standard_conforming_strings = off",
          "default_transaction_read_only = off",
          "transform_null_equals = on",
        ],
      ];
      for (const setting of settings) await server.query(`alter database ${database} set ${setting}`);
    }
    const row = `'2024-02-03 04:05:06.789', '2024-02-03 04:05:06.789+02', '1 year -2 days 03:04:05', 0.30000000000000004, decode('5c00ff', 'hex'),
    array_append('{a}'::text[], null), 'no element', 'pg_class', '1 < 2'`;
    const fill = (id: number) =>
      `set standard_conforming_strings = on; set xmloption = content; insert into t values (${id}, ${row})`;
    await rig.source(
      `create table t (id int primary key, ts timestamp, tz timestamptz, i interval, f float8, b bytea, a text[], x xml, ${form === "text" ? "r regclass" : "r text"}, "select" text); ${fill(1)}`,
    );
    rig.start();
    await rig.untilRealtime();
    await rig.source(`${fill(2)}; update t set f = f + 1 where id = 1`);
    await rig.expectEqual();
    await rig.stop();
    expect(rig.streamForms).toEqual([form]);
  },
);

test.each(["source", "sink"] as const)(
  "a backslash in an expression means the same on both sides, where only the %s takes it for an escape",
  async (side) => {
    await using rig = await PipelineRig.create(server, `x${++count}`);
    const database = side === "source" ? rig.sourceDatabase : rig.sinkDatabase;
    await server.query(`alter database ${database} set standard_conforming_strings = off`);
    await rig.source(
      `create domain digits as text check (value ~ $$^\\d+$$);
       create table t (id int primary key, phone text, code digits,
         dialed text generated always as (regexp_replace(phone, $$\\D$$, '', 'g')) stored);
       insert into t (id, phone, code) values (1, '+49 (30) 123-D4', '007')`,
    );
    rig.start();
    await rig.untilRealtime();
    await rig.source("insert into t (id, phone, code) values (2, '+1 555-D', '42')");
    await rig.expectEqual();
    expect(await rig.sink("select dialed from t order by id")).toEqual([
      { dialed: "49301234" },
      { dialed: "1555" },
    ]);
    expect(await rig.verify("t")).toMatchObject({ rows: 2, missing: 0, extra: 0, changed: 0 });
    await rig.stop();
  },
);
