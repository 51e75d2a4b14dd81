// A table that needs a change at the sink which migration_strategy does not allow stands by itself: the others go on, and it comes
// back when somebody has made the change.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
import { variants } from "../../support/matrix.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
let count = 0;

beforeAll(async () => {
  const settings = { fsync: "off", max_replication_slots: "40", max_wal_senders: "40" };
  server = await PostgresServer.start({ settings });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

const nothing = { migration_strategy: { allowed: [], disable_all: false } };
const begin =
  "create table t (id int primary key, a int not null); insert into t values (1, 1); create table u (id int primary key)";

async function streaming(setup = begin, options: RigOptions = {}): Promise<PipelineRig> {
  const allowing = { sink: nothing, ...options };
  const pair = await PipelineRig.streaming(server, `aside${++count}`, { source: setup }, allowing);
  await pair.expectEqual();
  return pair;
}

const namesOf = (pair: PipelineRig) => pair.setAside.map(({ name }) => name);
const commandsOf = (pair: PipelineRig) =>
  pair.setAside.flatMap(({ commands }) => commands.map((command) => `${command};`)).join(" ");

const isLike = (rows: readonly object[], expected: readonly object[]) =>
  rows.length === expected.length &&
  expected.every((row, i) =>
    Object.entries(row).every(([key, value]) => Reflect.get(rows[i]!, key) === value),
  );

/** A row of the other table arrives, and the table's own do not: it stays as it was. */
async function expectOthersGoOn(pair: PipelineRig): Promise<void> {
  await waitFor("the table to be set aside", () => pair.setAside.length === 1);
  const [{ id }] = (await pair.source<{ id: number }>(
    "insert into u select coalesce(max(id), 0) + 1 from u returning id",
  )) as [{ id: number }];
  await waitFor(
    "the other table",
    async () => (await pair.sink(`select from u where id = ${id}`)).length === 1,
  );
  expect(pair.phases.at(-1)).toMatchObject({ phase: { name: "realtime" }, health: { kind: "warning" } });
}

async function expectBack(pair: PipelineRig): Promise<void> {
  await pair.expectEqual();
  await waitFor("no table to be set aside", () => pair.setAside.length === 0);
  expect(await pair.sink("select * from millrace.set_aside")).toEqual([]);
  // It takes part in the stream again.
  await pair.source("insert into u select max(id) + 1 from u");
  await pair.expectEqual();
  await pair.stop();
}

describe("a change that is not allowed", () => {
  const everyday = [
    [
      "alter table t add z int default 7; insert into t values (2, 2, 2)",
      'alter table "public"."t" add column "z" integer default \'7\'; alter table "public"."t" alter column "z" drop default;',
    ],
    [
      "alter table t alter a drop not null; truncate t; insert into t values (2, null)",
      'alter table "public"."t" alter column "a" drop not null;',
    ],
  ] as const;
  const others = [
    [
      "alter table t rename a to c; delete from t; insert into t values (3, 3)",
      'alter table "public"."t" rename column "a" to "c";',
    ],
    [
      "alter table t alter a type bigint; insert into t values (2, 5000000000)",
      'alter table "public"."t" alter column "a" type bigint using "a"::bigint;',
    ],
  ] as const;
  test.concurrent.each(variants<readonly [sql: string, commands: string]>(everyday, others))(
    "keeps the table and no other, until the SQL is run: %s",
    async (sql, commands) => {
      await using pair = await streaming();
      await pair.source(sql);
      await expectOthersGoOn(pair);
      expect(commandsOf(pair)).toBe(commands);
      await pair.source("update t set id = id + 10");
      await expectOthersGoOn(pair);
      expect(await pair.sink<object>("select * from t")).toEqual([{ id: 1, a: 1 }]);
      await pair.sink(commands);
      await expectBack(pair);
    },
  );

  test.concurrent("keeps a table that was renamed", async () => {
    const sink = { migration_strategy: { allowed: [], disable_all: true } };
    await using pair = await streaming(begin, { sink });
    await pair.source("alter table t rename to v; insert into v values (2, 2)");
    await expectOthersGoOn(pair);
    expect(commandsOf(pair)).toBe('alter table "public"."t" rename to "v";');
    await pair.sink(commandsOf(pair));
    await expectBack(pair);
    expect(await pair.sink("select to_regclass('public.t')")).toEqual([{ to_regclass: null }]);
  });

  test.concurrent("says that it is copied again once nothing is left to do", async () => {
    await using pair = await streaming();
    await pair.source("alter table t add z int; insert into t values (2, 2, 2)");
    await expectOthersGoOn(pair);
    // Tables are reported once a second.
    await waitFor("its state to be told", () => pair.table("t")?.state === "SetAside");
    expect(pair.table("t")).not.toHaveProperty("copied_again");
    const copying = Promise.withResolvers<void>();
    pair.copiesHeld = copying.promise;
    await pair.sink(commandsOf(pair));
    await waitFor("its cause to be gone", () => pair.setAside[0]?.isCopiedAgain === true);
    copying.resolve();
    await expectBack(pair);
  });

  test.concurrent("waits over stops and deaths, and is made by the next run when it is allowed by then", async () => {
    await using pair = await streaming();
    await pair.source("alter table t add z int; insert into t values (2, 2, 2)");
    await expectOthersGoOn(pair);
    const { since } = pair.setAside[0]!;
    await pair.crash();
    pair.start();
    await expectOthersGoOn(pair);
    await pair.stop();
    await pair.source("insert into t values (3, 3, 3); alter table t rename to w");
    pair.start();
    await expectOthersGoOn(pair);
    expect(pair.setAside).toMatchObject([{ name: "w", since }]);
    await pair.stop();
    pair.reconfigureSink({ migration_strategy: { allowed: ["Add"], disable_all: false } });
    pair.start();
    await expectBack(pair);
    expect(await pair.sink("select to_regclass('public.t')")).toEqual([{ to_regclass: null }]);
  });

  test.concurrent("takes nothing of a large transaction whose end does not fit", async () => {
    await using pair = await streaming(begin, { maxBufferedRows: 50, isSupervised: true });
    await pair.source(`begin; insert into t select i, i from generate_series(2, 1000) i; insert into u values (1);
      alter table t add z int; insert into t values (0, 0, 0); commit`);
    await waitFor("the table to be set aside", () => pair.setAside.length === 1);
    await waitFor("the other table", async () => (await pair.sink("select from u")).length === 1);
    expect(await pair.sink<object>("select * from t")).toEqual([{ id: 1, a: 1 }]);
    await pair.sink(commandsOf(pair));
    await expectBack(pair);
  });

  test.concurrent("keeps two tables in one batch", async () => {
    await using pair = await streaming(`${begin}; create table t2 (id int primary key)`);
    await pair.stop();
    await pair.source(
      "alter table t add z int; alter table t2 add z int; insert into t values (2, 2, 2); insert into u values (7); insert into t2 values (1, 1)",
    );
    pair.start();
    await waitFor("both tables to be set aside", () => pair.setAside.length === 2);
    expect(namesOf(pair)).toEqual(["t", "t2"]);
    await waitFor("the other table", async () => (await pair.sink("select from u")).length === 1);
    await pair.sink(commandsOf(pair));
    await expectBack(pair);
  });
});

describe("a column that may not be dropped, when another gets its name", () => {
  const noDrop = {
    migration_strategy: { allowed: ["Add", "Datatype", "Nullability", "Order"], disable_all: false },
  };
  const three =
    "create table t (id int primary key, a int, b int); insert into t values (1, 1, 10); create table u (id int primary key)";
  const options = { sink: noDrop, isSupervised: true } as RigOptions;
  const rowsOf = (pair: PipelineRig) => pair.sink<object>("select * from t order by id");

  // Of the same type: all rows come again, and the column takes theirs.
  test.concurrent("takes no values of it: copied again, live and over a stop", async () => {
    await using pair = await streaming(three, options);
    await pair.source(
      "alter table t drop column a; alter table t add column a int; insert into t values (2, 20, 2)",
    );
    await waitFor("the copy", async () =>
      isLike(await rowsOf(pair), [
        { id: 1, a: null },
        { id: 2, a: 2 },
      ]),
    );
    await pair.stop();
    await pair.source("alter table t drop column b; insert into t values (3, 3)");
    pair.start();
    await waitFor("the row", async () => (await rowsOf(pair)).length === 3);
    // What stays of the column is remembered over a run that has nothing to do with it.
    await pair.source("alter table t add column c int; insert into t values (4, 4, 4)");
    await waitFor("the row", async () => (await rowsOf(pair)).length === 4);
    expect(await rowsOf(pair)).toMatchObject([{ b: 10 }, { b: 20 }, { b: null }, { b: null }]);
    await pair.stop();
    await pair.source("alter table t rename a to b; insert into t values (5, 5, 5)");
    pair.start();
    const values = [{ b: null }, { b: 2 }, { b: 3 }, { b: 4 }, { b: 5 }];
    await waitFor("the copy", async () => isLike(await rowsOf(pair), values));
    await waitFor("no table to be set aside", () => pair.setAside.length === 0);
    await pair.stop();
  });

  test.concurrent("keeps the table until the SQL is run, where its type is another", async () => {
    await using pair = await streaming(three, options);
    await pair.source(
      "alter table t drop column a; alter table t add a text; insert into t values (2, 20, '007')",
    );
    await expectOthersGoOn(pair);
    expect(commandsOf(pair)).toBe('alter table "public"."t" drop column "a";');
    await pair.sink(commandsOf(pair));
    await expectBack(pair);
  });

  test.concurrent("without copies the run stands, with the SQL, until a rename is made by hand", async () => {
    const empty = "create table t (id int primary key, a int, b int); create table u (id int primary key)";
    await using pair = await streaming(empty, { sink: noDrop as never, skipSnapshots: true });
    await pair.source("insert into t values (2, 2, 20)");
    await waitFor("the row", async () => (await rowsOf(pair)).length === 1);
    await pair.source(
      "alter table t drop column b; alter table t rename a to b; insert into t values (3, 3)",
    );
    const error = (await pair.ended()) as MillraceError;
    expect(error.code).toBe("sink_schema_mismatch");
    const sql =
      'alter table "public"."t" drop column "b"; alter table "public"."t" rename column "a" to "b";';
    expect(error.message).toEndWith(`Run: ${sql}`);
    await pair.sink(sql);
    pair.start();
    await waitFor("the row", async () => (await rowsOf(pair)).length === 2);
    expect(await rowsOf(pair)).toEqual([
      { id: 2, b: 2 },
      { id: 3, b: 3 },
    ]);
    await pair.stop();
  });
});

describe("a table that cannot take its first copy", () => {
  const everyday = [
    ["lacks a column", "create table t (id int primary key)"],
    ["is a view", "create view t as select 1 as id, 2 as a, 3 as b"],
  ] as const;
  const others = [
    ["takes no null", "create table t (id int primary key, a int, b int not null)"],
    ["is a materialized view", "create materialized view t as select 1 as id, 2 as a, 3 as b"],
  ] as const;
  test.concurrent.each(variants<readonly [string, there: string]>(everyday, others))(
    "is set aside while the others are copied: it %s",
    async (_, there) => {
      const options = { sink: nothing, isSupervised: true };
      await using pair = await PipelineRig.create(server, `aside${++count}`, options);
      await pair.source("create table t (id int primary key, a int, b int); insert into t values (1, 1)");
      await pair.source("create table u (id int primary key); insert into u values (1)");
      await pair.sink(there);
      pair.start();
      await waitFor("the stream", () => pair.phases.at(-1)?.phase.name === "realtime");
      await expectOthersGoOn(pair);
      await pair.sink(commandsOf(pair));
      await expectBack(pair);
    },
  );
});

test.concurrent("without copies nothing is set aside: the run stands, with the SQL", async () => {
  await using pair = await PipelineRig.create(server, `aside${++count}`, {
    sink: nothing,
    skipSnapshots: true,
  });
  await pair.source("create table t (id int primary key)");
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (0)");
  await pair.expectEqual();
  await pair.source("alter table t add z int; insert into t values (1, 1)");
  const error = (await pair.ended()) as MillraceError;
  expect(error.code).toBe("sink_schema_mismatch");
  expect(error.message).toContain('Run: alter table "public"."t" add column "z" integer;');
  await pair.sink('alter table "public"."t" add column "z" integer');
  pair.start();
  await pair.expectEqual();
  await pair.stop();
});

test("a type of somebody's choice at the sink that has no room for the source's new one", async () => {
  await using pair = await PipelineRig.streaming(
    server,
    `aside${++count}`,
    {
      source: `${begin}; create table v (id int primary key, a int); insert into v values (1, 1)`,
      sink: "create table t (id int primary key, a bigint, v int); create table v (id int primary key, a text)",
    },
    { isSupervised: true },
  );
  await pair.source("insert into t values (2, 2)");
  await pair.source(
    "alter table t rename a to c; alter table t alter c type text; alter table v alter a type text",
  );
  await pair.source("insert into t values (3, 'three'); insert into v values (2, 'two')");
  await expectOthersGoOn(pair);
  expect(commandsOf(pair)).toBe(
    'alter table "public"."t" rename column "a" to "c"; alter table "public"."t" alter column "c" type text using "c"::text;',
  );
  expect(pair.setAside[0]?.reason).toContain("somebody has chosen");
  await pair.sink(commandsOf(pair));
  const both = "select id, c from t order by id";
  await waitFor("the table to come back", () => pair.setAside.length === 0);
  await pair.expectSame(both);
  await pair.expectSame("select id, a from v order by id");
  await pair.source("update t set c = 'last' where id = 1");
  await pair.expectSame(both);
  await pair.stop();
});
