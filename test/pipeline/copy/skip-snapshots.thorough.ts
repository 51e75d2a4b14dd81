// A connector that copies nothing by itself: what a change makes of rows that the sink never had, tables that come later, tasks, and
// what becomes of it once copies are wanted.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Catalog } from "../../../src/connector/config/catalog.ts";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const big = "repeat('b', 3000)";
const loaded =
  "create table loaded (id int primary key, v int); insert into loaded select i, i from generate_series(1, 5) i";
const source = `
  create table t (id int primary key, v int, big text); alter table t alter big set storage external;
  insert into t select i, i, ${big} from generate_series(1, 5) i;
  create table bare (v int); alter table bare replica identity full; insert into bare values (1), (2);
  ${loaded}`;

test("nothing is copied but by a task, every change from the slot's beginning arrives, and copies follow once they are wanted", async () => {
  const options: { -readonly [Key in keyof RigOptions]: RigOptions[Key] } = { skipSnapshots: true };
  await using rig = await PipelineRig.create(server, "skip", options);
  await rig.source(source);
  await rig.sink(`${loaded}; alter table loaded add column mine text default 'mine'`);
  let mark = 100;
  const arrive = async (changes: string) => {
    await rig.source(`${changes}; insert into t values (${++mark}, 0, '')`);
    const isThere = async () =>
      (await rig.sink(`select from t where id = ${mark}`).catch(() => [])).length === 1;
    await waitFor("the changes", isThere);
  };
  rig.start();
  await rig.untilRealtime();
  // A table is made with its first row.
  expect(await rig.sink("select to_regclass('t') as made")).toEqual([{ made: null }]);
  await arrive(`update t set v = 100 where id = 1; update t set v = 100, big = 'whole' where id = 2; delete from t where id = 3;
    update t set id = 40 where id = 4; update bare set v = 10 where v = 1; delete from bare where v = 2; insert into bare values (5);
    update loaded set v = 9 where id = 1; delete from loaded where id = 2; insert into loaded values (6, 6)`);
  await rig.source("create table late (id int primary key); insert into late values (1)");
  await waitFor("the warning", () =>
    rig.warnings.some((reason) => reason.includes("may lack rows and values of public.late:")),
  );
  await arrive("insert into late values (2)");
  const rows = async (sql: string) => (await rig.sink(sql)).map((row) => Object.values(row).join());
  // What is not there, and was not sent as a whole, cannot be made.
  expect(await rows("select id, v, big from t where id < 100")).toEqual(["2,100,whole"]);
  expect(await rows("select v from bare")).toEqual(["5"]);
  expect(await rows("select * from loaded order by id")).toEqual([
    "1,9,mine",
    "3,3,mine",
    "4,4,mine",
    "5,5,mine",
    "6,6,mine",
  ]);
  expect(await rows("select * from late")).toEqual(["2"]);
  expect(await rig.snapshot("late", false)).toBeNull();
  await rig.expectSame("select * from late order by id");
  await waitFor("the warning to end", () => rig.phases.at(-1)?.health.kind === "heartbeat");

  await rig.stop();
  await rig.source("insert into bare values (6)");
  rig.start();
  await rig.untilRealtime();
  await arrive("insert into late values (3)");
  expect(await rig.snapshot("t", true)).toBeNull();
  expect(rig.copies.map(({ table }) => table)).toEqual(["late", "t"]);
  await rig.expectSame("select * from t order by id");
  await arrive("update t set v = -1 where id = 5; insert into late values (4)");
  await rig.expectSame("select * from late order by id");
  await rig.expectSame("select * from t order by id");
  expect(await rows("select v from bare order by v")).toEqual(["5", "6"]);
  expect([rig.warnings.length, rig.setAside]).toEqual([1, []]);

  await rig.stop();
  options.skipSnapshots = false;
  rig.start();
  await rig.untilRealtime();
  await rig.expectSame("select v from bare order by v");
  await rig.expectSame("select id, v from loaded order by id");
  await rig.stop();
});

const missed = (rig: PipelineRig) =>
  rig.warnings.filter((reason) => reason.includes("may lack rows and values of public.t:")).length;

test.concurrent("a row that somebody has deleted at the sink stops nothing: a warning names the table until a task has copied it", async () => {
  await using rig = await PipelineRig.create(server, "skipmissing", {
    skipSnapshots: true,
    isSupervised: true,
  });
  await rig.source(`create table t (id int primary key, v int, big text); alter table t alter big set storage external;
    insert into t select i, i, ${big} from generate_series(1, 5) i`);
  rig.start();
  await rig.untilRealtime();
  expect(await rig.snapshot("t", false)).toBeNull();
  await rig.expectEqual();
  expect(missed(rig)).toBe(0);
  await rig.sink("delete from t where id = 1");
  await rig.source("update t set v = -1 where id < 3; insert into t values (6, 6, 'six')");
  await waitFor("the rows behind", async () => (await rig.sink("select from t where id = 6")).length === 1);
  expect(await rig.sink<object>("select id, v from t where id < 3")).toEqual([{ id: 2, v: -1 }]);
  expect(missed(rig)).toBeGreaterThan(0);
  expect(await rig.snapshot("t", false)).toBeNull();
  await rig.expectEqual();
  await waitFor("the warning to end", () => rig.phases.at(-1)?.health.kind === "heartbeat");
  await rig.stop();
});

test.concurrent("a column that somebody drops at the sink: a warning names the table whose values are gone", async () => {
  await using rig = await PipelineRig.create(server, "skipdropped", {
    skipSnapshots: true,
    isSupervised: true,
  });
  await rig.source("create table t (id int primary key, v int); insert into t values (1, 1)");
  rig.start();
  await rig.untilRealtime();
  expect(await rig.snapshot("t", false)).toBeNull();
  await rig.sink("alter table t drop column v");
  await rig.source("insert into t values (2, 2)");
  await waitFor("the warning", () => missed(rig) > 0);
  expect(await rig.snapshot("t", false)).toBeNull();
  await rig.expectEqual();
  await rig.stop();
});

const computed = "alter table t add g int generated always as (a * 2) stored";

/** The table has got its first row, the column `a`, and then `more`, while the connector was stopped. */
async function addedBehind(
  database: string,
  source: NonNullable<RigOptions["source"]>,
  more: readonly string[],
) {
  const rig = await PipelineRig.create(server, database, { skipSnapshots: true, source });
  await rig.source("create table t (id int primary key, b text)");
  rig.start();
  await rig.untilRealtime();
  await rig.stop();
  for (const sql of ["insert into t values (1, 'x')", "alter table t add a int", ...more])
    await rig.source(sql);
  rig.start();
  await rig.untilRealtime();
  return rig;
}

test.concurrent("a table whose first row is from before it got a generated column is made without it, and gets it then", async () => {
  await using rig = await addedBehind("skipgenerated", {}, [computed]);
  await rig.expectSame("select id, b, a, g from t order by id");
  await rig.source("update t set a = 3; insert into t values (2, 'y', 4)");
  await rig.expectSame("select id, b, a, g from t order by id");
  const generated =
    "select attname as name from pg_attribute where attrelid = 't'::regclass and attgenerated = 's'";
  expect(await rig.sink<object>(generated)).toEqual([{ name: "g" }]);
  await rig.stop();
});

function without(name: string): Catalog {
  const columns = [{ name, action: "Exclude" as const }];
  const tables = [{ name: "t", columns, action: "Include" as const, history_enabled: false }];
  return {
    name: "any",
    default_action: "Include",
    schemas: [{ name: "public", tables, action: "Include" }],
  };
}

const addedAfter = [
  ["that is computed", "skipcomputed", computed, {}],
  ["that is left out", "skipexcluded", "alter table t add secret int", { catalog: without("secret") }],
] as const;
test.concurrent.each(addedAfter)(
  "a column keeps its values where one came after it %s, before the stream had brought the first",
  async (_, database, column, source) => {
    await using rig = await addedBehind(database, source, [
      column,
      "insert into t (id, b, a) values (2, 'y', 3)",
    ]);
    await rig.source("insert into t (id, b, a) values (3, 'z', 4)");
    await rig.expectSame("select id, b, a from t order by id");
    await rig.stop();
  },
);

const narrow = "id int primary key, s varchar(5), i int, n numeric(5,2), x text";

/** A pair whose table has a row of values that only some types take, and that is altered then. */
async function altered(database: string, options: RigOptions, ddl: string) {
  const pair = await PipelineRig.create(server, database, { skipSnapshots: true, ...options });
  await pair.source(`create table t (${narrow})`);
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (1, 'abcde', 100000, 1.25, 'seven')");
  await pair.expectEqual();
  await pair.source(ddl);
  // A table that is made anew is published a moment later.
  const published =
    "select from pg_publication_rel r join pg_class c on c.oid = r.prrelid where c.relname = 't'";
  await waitFor("the table's publication", async () => (await pair.source<object>(published)).length > 0);
  return pair;
}

test.concurrent("a table is made anew with wider types: those of the sink follow, and no digit is lost", async () => {
  const wide = "id int primary key, s text, i bigint, n numeric(12,4), x text";
  await using pair = await altered(
    "skipwide",
    { isSupervised: true },
    `drop table t; create table t (${wide})`,
  );
  await pair.source("insert into t values (2, 'longer', 4000000000, 1.2345, 'x')");
  await waitFor("the row", async () => (await pair.sink<object>("select from t where id = 2")).length === 1);
  expect(await pair.sink<object>("select s, i, n, x from t order by id")).toEqual([
    { s: "abcde", i: "100000", n: "1.2500", x: "seven" },
    { s: "longer", i: "4000000000", n: "1.2345", x: "x" },
  ]);
  await pair.stop();
});

test.concurrent.each([
  ["is altered", "skipaltered", "alter table t alter x type int using 7"],
  [
    "is made anew",
    "skipanew",
    "drop table t; create table t (id int primary key, s varchar(5), i int, n numeric(5,2), x int)",
  ],
])(
  "a table %s to a type that a value at the sink does not have: the run stands, with the SQL, and goes on once it was run",
  async (_, database, ddl) => {
    await using pair = await altered(database, {}, ddl);
    await pair.source("insert into t values (2, 'a', 1, 1.25, 8)");
    let failure = (await pair.ended()) as MillraceError;
    // Values of this type travel in another form.
    for (; failure.code === "stream_form_changed"; failure = (await pair.ended()) as MillraceError)
      pair.start();
    expect(failure.code).toBe("sink_schema_mismatch");
    const sql = 'alter table "public"."t" alter column "x" type integer using null::integer';
    expect(failure.message).toEndWith(`Run: ${sql};`);
    expect(failure.table?.commands).toEqual([sql]);
    await pair.sink(sql);
    pair.start();
    await waitFor(
      "the row",
      async () => (await pair.sink<object>("select from t where id = 2")).length === 1,
    );
    expect(await pair.sink<object>("select id, n, x from t order by id")).toEqual([
      { id: 1, n: "1.25", x: null },
      { id: 2, n: "1.25", x: 8 },
    ]);
    await pair.stop();
  },
);
