// Types of the source that the sink's lack something of: what millrace may not alter is told, and a range that was made anew is made anew.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const streaming = (source: string, options: RigOptions = {}) =>
  PipelineRig.streaming(server, `lack${++count}`, { source }, { isSupervised: true, ...options });

const withoutDatatype: RigOptions = {
  sink: { migration_strategy: { allowed: ["Add", "Nullability"], disable_all: false } },
};

test.each([
  [
    "a label",
    "create type m as enum ('a', 'b')",
    "alter type m add value 'c'",
    "'c'",
    'alter type "public"."m" add value if not exists \'c\'',
  ],
  [
    "an attribute",
    "create type m as (a int)",
    "alter type m add attribute b int cascade",
    "row(1, 2)",
    'alter type "public"."m" add attribute "b" integer',
  ],
])(
  "%s that millrace may not add: the table waits, the others go on, and the SQL is told",
  async (_, make, alter, value, command) => {
    await using rig = await streaming(
      `${make}; create table t (id int primary key, m m); create table u (id int); insert into t values (1, null)`,
      withoutDatatype,
    );
    await rig.source(alter);
    await rig.source(`insert into t values (3, ${value}); insert into u values (1)`);
    const commands = async () =>
      (await rig.sink<{ commands: string[] }>("select commands from millrace.set_aside"))[0]?.commands;
    await waitFor("the command", async () => (await commands()) !== undefined);
    expect(await commands()).toEqual([command]);
    for (const id of [2, 3]) {
      await rig.source(`insert into u values (${id})`);
      await waitFor("the other table", async () => (await rig.sink("select from u")).length === id);
      await Bun.sleep(2_000);
    }
    await rig.sink(command);
    await rig.expectEqual();
    await rig.stop();
  },
);

test("a range type that was made anew over another subtype: no value is cut", async () => {
  await using rig = await streaming(
    "create type r as range (subtype = date); create table t (id int primary key, v r); insert into t values (1, '[2024-01-01,2024-02-01)')",
  );
  await rig.source("alter table t drop v; drop type r; create type r as range (subtype = timestamp)");
  await rig.source(
    "alter table t add v r; insert into t values (2, '[2024-01-01 10:11:12,2024-01-01 10:11:13)')",
  );
  await rig.expectEqual();
  const [row] = await rig.sink<{ v: string }>("select v::text as v from t where id = 2");
  expect(row?.v).toBe('["2024-01-01 10:11:12","2024-01-01 10:11:13")');
  await rig.stop();
});

test("a table whose name at the sink is that of a type is set aside with advice, and the others go on", async () => {
  await using rig = await PipelineRig.create(server, "typesnamed", {
    sink: { target_schema: "all_in_one" },
    isSupervised: true,
  });
  await rig.source(`create schema hr; create schema sales; create type sales.status as enum ('a');
    create table sales.orders (id int primary key, s sales.status); create table hr.status (id int primary key);
    insert into sales.orders values (1, 'a'); insert into hr.status values (1)`);
  rig.start();
  await waitFor("the advice", () =>
    rig.setAside.some(({ reason }) =>
      reason.includes("is a type, and a table of that name would be one too"),
    ),
  );
  await rig.source("insert into sales.orders values (2, 'a')");
  await waitFor(
    "the other table",
    async () => (await rig.sink("select from all_in_one.orders").catch(() => [])).length === 2,
  );
  await rig.stop();
});
