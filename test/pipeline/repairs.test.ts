// What a table needs before it is let back in: all of it is told at once, the SQL works on the rows that are there, and a table that still differs
// is set aside again.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig, type RigOptions } from "../support/pipeline-rig.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
let count = 0;

beforeAll(async () => {
  const settings = { fsync: "off", max_replication_slots: "40", max_wal_senders: "40" };
  server = await PostgresServer.start({ settings });
});
afterAll(() => server[Symbol.asyncDispose]());

const nothing = { migration_strategy: { allowed: [], disable_all: false } };
const columns = "select string_agg(t::text, '; ' order by id) as rows from t";

async function streaming(source: string, sink?: string, options: RigOptions = {}): Promise<PipelineRig> {
  const setup = { source: `${source}; create table u (id int primary key)`, ...(sink ? { sink } : {}) };
  return await PipelineRig.streaming(server, `repairs${++count}`, setup, {
    ...{ sink: nothing, isSupervised: true },
    ...options,
  });
}

async function told(pair: PipelineRig, commands: readonly string[]): Promise<string> {
  const now = () => pair.setAside.flatMap((table) => table.commands);
  await waitFor("the commands", () => Bun.deepEquals(now(), commands), { timeoutMs: 30_000 }).catch(() => {});
  expect(now()).toEqual([...commands]);
  return pair.setAside[0]?.reason ?? "";
}

async function expectBack(pair: PipelineRig, sql = columns): Promise<void> {
  await waitFor("no table to be set aside", () => pair.setAside.length === 0, { timeoutMs: 30_000 });
  await pair.expectSame(sql);
  await pair.source("insert into u select coalesce(max(id), 0) + 1 from u");
  await pair.expectSame("select count(*) from u");
  await pair.stop();
}

const run = async (pair: PipelineRig, commands: readonly string[]) => {
  for (const command of commands) await pair.sink(command);
};

const memo =
  'alter table "public"."t" alter column "memo" drop identity if exists, alter column "memo" drop default, ' +
  'alter column "memo" drop not null, alter column "memo" type integer using null::integer';

test.concurrent("the type of a column whose values do not cast: they are emptied, and come back by the copy", async () => {
  await using pair = await streaming(
    "create table t (id int primary key, memo text not null); insert into t values (1, 'one'), (2, 'two')",
    "create table t (id int primary key, memo text not null default 'none')",
  );
  await pair.source("alter table t alter memo type integer using id; insert into t values (3, 3)");
  const reason = await told(pair, [memo]);
  expect(reason).toContain("What the SQL empties comes back by the copy that follows it.");
  await run(pair, [memo]);
  await expectBack(pair);
});

test.concurrent("a key whose values do not cast: its rows make room", async () => {
  await using pair = await streaming(
    "create table t (id text primary key); insert into t values ('one'), ('two')",
  );
  await pair.source("truncate t; alter table t alter id type integer using 1; insert into t values (3), (4)");
  const commands = [
    'delete from only "public"."t"',
    'alter table "public"."t" alter column "id" type integer using null::integer',
  ];
  await told(pair, commands);
  await run(pair, commands);
  await expectBack(pair);
});

test.concurrent("a column that was added, one of another type, and one that takes no null: all at once", async () => {
  await using pair = await streaming(
    `create table t (id int primary key, amount int, memo text, "By Whom" text); insert into t values (1, 1, '1', 'me')`,
    `create table t (id int primary key, amount int not null, memo int, "By Whom" text not null)`,
  );
  await pair.source("alter table t add more int; insert into t values (2, null, 'two', null, 2)");
  const commands = [
    'alter table "public"."t" add column "more" integer',
    'alter table "public"."t" alter column "memo" type text using "memo"::text',
    'alter table "public"."t" alter column "amount" drop not null',
    'alter table "public"."t" alter column "By Whom" drop not null',
  ];
  const reason = await told(pair, commands);
  expect(reason).toContain("Column memo is of type text at the source and of type integer at the sink.");
  expect(reason).toContain("Columns do not take null there, and the source's do: amount, By Whom.");
  // Somebody runs half of it.
  await run(pair, commands.slice(0, 1));
  expect(await told(pair, commands.slice(1))).not.toContain("is being copied again");
  await run(pair, commands.slice(1));
  await expectBack(pair);
});

test.concurrent("a first copy that a type refuses: the others go on, and all types are told", async () => {
  await using pair = await streaming(
    "create table t (id int primary key, a text, b timestamp, c bigint); insert into t values (1, 'one', '2026-01-01', 5000000000)",
    "create table t (id int primary key, a int, b int, c int); insert into t values (7, 7, 7, 7)",
    { sink: {} },
  );
  const commands = [
    'alter table "public"."t" alter column "a" type text using "a"::text',
    'alter table "public"."t" alter column "b" type timestamp without time zone using null::timestamp without time zone',
    'alter table "public"."t" alter column "c" type bigint using "c"::bigint',
  ];
  const reason = await told(pair, commands);
  expect(reason).toContain("Column c is of type bigint at the source and of type integer at the sink.");
  // What would be refused next is told still.
  await run(pair, commands.slice(0, 1));
  await told(pair, commands.slice(1));
  await run(pair, commands.slice(1));
  await expectBack(pair, "select t.* from t where id = 1");
});

test.concurrent("a column that the sink computes, and the source sends", async () => {
  await using pair = await streaming(
    "create table t (id int primary key, a int, b int); insert into t values (1, 2, 5)",
    "create table t (id int primary key, a int, b int generated always as (a * 2) stored)",
    { sink: {} },
  );
  const commands = ['alter table "public"."t" alter column "b" drop expression'];
  expect(await told(pair, commands)).toContain("Column b is computed at the sink, and the source has values");
  await run(pair, commands);
  await expectBack(pair);
});

const tu =
  "create table t (id int primary key); insert into t values (1); create table u2 (id int primary key, v int)";
const swap = "alter table t rename to x; alter table u2 rename to t; alter table x rename to u2";

test.concurrent.each([
  [
    "two tables exchange their names",
    `${swap}; insert into t values (2, 2); insert into u2 values (3)`,
    "u2",
  ],
  [
    "the same, and the SQL is run backwards",
    `${swap}; insert into t values (2, 2); insert into u2 values (3)`,
    "u2",
  ],
  [
    "a table takes the name that another one leaves",
    "alter table u2 rename to o; alter table t rename to u2; insert into o values (2, 2); insert into u2 values (3)",
    "u2",
  ],
  [
    "a new table takes the name that another one leaves, which has no changes",
    "alter table t rename to o; create table t (id int primary key, z text); insert into t values (2, 'new')",
    "o",
  ],
])("names that millrace may not follow: %s", async (what, sql, now) => {
  const sink = { migration_strategy: { allowed: [], disable_all: true } };
  await using pair = await streaming(tu, undefined, { sink });
  await pair.expectEqual();
  const oidOf = async (table: string) => (await pair.sink(`select '${table}'::regclass::oid as oid`))[0];
  const before = await oidOf("t");
  await pair.source(`begin; ${sql}; commit`);
  const toldNow = () => pair.setAside.flatMap((table) => table.commands);
  await waitFor("the commands", () => toldNow().length > 0);
  const ran = new Set<string>();
  const isMended = async () => {
    const next = toldNow().filter((command) => !ran.has(command));
    // In one transaction, as it is pasted: between two of them a name is free, and a run that begins then makes a table there.
    await pair.sink((what.endsWith("backwards") ? next.toReversed() : next).join("; "));
    for (const command of next) ran.add(command);
    return pair.setAside.length === 0;
  };
  await waitFor("no table to be set aside", isMended, { timeoutMs: 30_000 });
  await pair.expectEqual();
  // The rows' own table has the name, and none is left over.
  expect(await oidOf(now)).toEqual(before!);
  expect(
    await pair.sink("select relname from pg_class where relname ~ '^millrace_renamed_.*[0-9]$'"),
  ).toEqual([]);
  await pair.source(`insert into ${now} values (8)`);
  await pair.expectEqual();
  await pair.stop();
});
