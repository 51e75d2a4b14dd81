// Histories that somebody alters, whose tables go, or that are switched off and on: no change is lost in silence, and no other table waits.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { told, untilTold, withHistory } from "../../support/oracles/history-tables.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const streaming = (source: string, tables: readonly string[], options: RigOptions = {}) =>
  PipelineRig.streaming(
    server,
    `interrupted${++count}`,
    { source },
    { isSupervised: true, ...options, source: { catalog: withHistory(...tables), ...options.source } },
  );

const toldCommands = async (rig: PipelineRig) =>
  (await rig.sink<{ commands: string[] }>("select commands from millrace.set_aside")).flatMap(
    ({ commands }) => commands,
  );

/** Rows of `u` go on. */
async function goesOn(rig: PipelineRig, id: number): Promise<void> {
  await rig.source(`insert into u values (${id})`);
  await waitFor(
    "the other table",
    async () => (await rig.sink(`select from u where id = ${id}`)).length === 1,
  );
}

test("what is changed before a table is dropped is in its history", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v text); create table u (id int); insert into t values (1, 'a')",
    ["t"],
  );
  await untilTold(rig, "id, v", "t_history", 1);
  await rig.stop();
  await rig.source(
    "update t set v = 'b' where id = 1; insert into t values (2, 'c'); delete from t where id = 1; drop table t",
  );
  rig.start();
  expect(await untilTold(rig, "id, v", "t_history", 4)).toEqual(["r 1|a", "u 1|b", "c 2|c", "d 1|b"]);
  await goesOn(rig, 1);
  await rig.stop();
});

test("what is changed before a table is dropped and made anew is in its history, before the new one's rows", async () => {
  const made = "create table t (id int primary key, v text)";
  await using rig = await streaming(
    `${made}; create table u (id int); insert into t values (1, 'a'), (3, 'z')`,
    ["t"],
  );
  await untilTold(rig, "id, v", "t_history", 2);
  await rig.stop();
  await rig.source(
    `update t set v = 'b' where id = 1; insert into t values (2, 'c'); delete from t where id = 3; drop table t; ${made}; insert into t values (2, 'new')`,
  );
  rig.start();
  const rows = await untilTold(rig, "id, v", "t_history", 7);
  expect(rows.slice(0, 5)).toEqual(["r 1|a", "r 3|z", "u 1|b", "c 2|c", "d 3|z"]);
  expect(rows.slice(5).toSorted()).toEqual(["d 1|b", "r 2|new"]);
  await rig.source("update t set v = 'newer'");
  expect((await untilTold(rig, "id, v", "t_history", 8)).at(-1)).toBe("u 2|newer");
  await rig.expectEqual();
  await rig.stop();
});

test("last changes of a dropped table that its history refuses stop nothing", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v text); create table u (id int); insert into t values (1, 'a')",
    ["t"],
  );
  await untilTold(rig, "id, v", "t_history", 1);
  await rig.stop();
  await rig.sink("alter table t_history add check (length(v) < 5)");
  await rig.source("update t set v = 'too long for it' where id = 1; drop table t");
  rig.start();
  await goesOn(rig, 1);
  expect(rig.warnings.some((reason) => reason.includes("Table public.t was dropped at the source"))).toBe(
    true,
  );
  await rig.stop();
});

test("a column of a history that somebody has renamed: the table waits, with the SQL that mends it", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v text); create table u (id int); insert into t values (1, 'a')",
    ["t"],
  );
  await untilTold(rig, "id, v", "t_history", 1);
  await rig.sink("alter table t_history rename column v to w");
  await rig.source("update t set v = 'b' where id = 1");
  await waitFor("the command", async () => (await toldCommands(rig)).length > 0);
  const [command = ""] = await toldCommands(rig);
  expect(command).toBe('alter table "public"."t_history" rename column "w" to "v"');
  await goesOn(rig, 1);
  await rig.sink(command);
  await rig.expectEqual();
  await untilTold(rig, "id, v", "t_history", 2);
  await rig.source("update t set v = 'c' where id = 1");
  expect((await untilTold(rig, "id, v", "t_history", 3)).slice(1)).toEqual(["r 1|b", "u 1|c"]);
  await rig.stop();
});

test("without copies, a history that was switched off begins again with the next change", async () => {
  const options: { -readonly [Key in keyof RigOptions]: RigOptions[Key] } = { skipSnapshots: true };
  options.source = { catalog: withHistory("t") };
  await using rig = await PipelineRig.streaming(
    server,
    `interrupted${++count}`,
    { source: "create table t (id int primary key, v text)" },
    options,
  );
  await rig.source("insert into t values (1, 'a')");
  await untilTold(rig, "id, v", "t_history", 1);
  await rig.stop();
  options.source = {};
  rig.start();
  await rig.source("insert into t values (2, 'b')");
  await waitFor("the row", async () => (await rig.sink("select from t where id = 2")).length === 1);
  await rig.stop();
  options.source = { catalog: withHistory("t") };
  rig.start();
  await rig.source("insert into t values (3, 'c')");
  expect(await untilTold(rig, "id, v", "t_history", 2)).toEqual(["c 1|a", "c 3|c"]);
  await rig.stop();
});

test("a table that waits by itself, and whose history somebody alters then, does not stop the others", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, v int); create table u (id int); insert into t values (1, 1)",
    ["t"],
    { sink: { migration_strategy: { allowed: [], disable_all: false } } },
  );
  await untilTold(rig, "id", "t_history", 1);
  await rig.source("alter table t add waits int; update t set v = 2 where id = 1");
  await waitFor("it to be set aside", async () => rig.setAside.length === 1);
  await untilTold(rig, "id", "t_history", 2);
  await rig.sink("alter table t_history add constraint small check (v < 3)");
  await rig.source("update t set v = 4 where id = 1");
  await goesOn(rig, 1);
  await rig.source("update t set v = 5 where id = 1");
  await goesOn(rig, 2);
  await rig.sink("alter table t_history drop constraint small; alter table t add waits int");
  await rig.expectEqual();
  await untilTold(rig, "v", "t_history", 3);
  await rig.source("update t set v = 6 where id = 1");
  expect((await untilTold(rig, "v", "t_history", 4)).slice(-2)).toEqual(["r 5", "u 6"]);
  await rig.stop();
});

test("rows of a key of which the source tells nothing any more: the table is copied, and its history goes on", async () => {
  await using rig = await streaming(
    "create table t (id int primary key, a int not null, b text); create table u (id int); insert into t values (1, 1, 'x'), (2, 2, 'y')",
    ["t"],
  );
  await untilTold(rig, "id", "t_history", 2);
  await rig.source(
    `begin; update t set id = 5 where id = 1; alter table t drop constraint t_pkey;
     alter table t add g int not null generated always as (a * 2) stored, add primary key (g); commit`,
  );
  await rig.expectEqual();
  await goesOn(rig, 1);
  // The change itself, where a copy had it already; otherwise what the copy that follows brings.
  const isTold = async () =>
    (await told(rig, "id, a", "t_history")).some((row) => row === "u 5|1" || row === "r 5|1");
  await waitFor("the row under its new key", isTold);
  await rig.stop();
});
