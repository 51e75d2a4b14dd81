// A slot is lost, and the connector goes on with a new one: what the sink has missed is found by comparing its tables, and nothing else is copied.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { PipelineRig } from "../../support/pipeline-rig.ts";
import { PostgresServer } from "../../support/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

/** Invalidates the slots that stand still. */
async function removeLog(): Promise<void> {
  await server.query("alter system set max_slot_wal_keep_size = '1MB'");
  await server.query("select pg_reload_conf()");
  for (let i = 0; i < 4; i++) {
    await server.query("select pg_logical_emit_message(false, 'filler', repeat('x', 1000000))");
    await server.query("select pg_switch_wal()");
  }
  await server.query("checkpoint");
  await server.query("alter system reset max_slot_wal_keep_size");
  await server.query("select pg_reload_conf()");
}

async function withoutSessions(database: string): Promise<void> {
  await server.query(
    `select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '${database}'`,
  );
}

const rows = 3_000;
const tables = `
create table a (id int primary key, n int, text text);
insert into a select g, 0, 'text ' || g from generate_series(1, ${rows}) g;
create table b (id int primary key, n int, far text);
alter table b alter far set storage external;
insert into b select g, 0, repeat('b' || g, 1000) from generate_series(1, 300) g;
create table emptied (id int primary key, text text);
insert into emptied select g, 'e' from generate_series(1, 200) g;
create table dropped (id int primary key);
insert into dropped select generate_series(1, 10);
create table whole (id int primary key, text text);
insert into whole select g, 'w' || g from generate_series(1, ${rows}) g`;

/** Changes of every kind, which nobody brings. */
const missed = `
update a set n = 1 where id % 100 = 0;
delete from a where id % 97 = 0;
insert into a select g, 2, 'new' from generate_series(${rows} + 1, ${rows} + 20) g;
update a set id = id + 100000 where id % 89 = 0;
update b set n = 1 where id % 10 = 0;
update b set far = repeat('other', 1000) where id % 30 = 0;
update b set id = id + 1000 where id % 31 = 0;
truncate emptied;
insert into emptied values (1, 'again');
drop table dropped;
create table made (id int primary key, text text);
insert into made select g, 'm' from generate_series(1, 50) g;
alter table a add column added text default 'by default';
update a set added = 'set' where id % 50 = 0`;

async function streaming(name: string, sql = tables, options = {}): Promise<PipelineRig> {
  const rig = await PipelineRig.streaming(server, name, { source: sql }, options);
  await rig.expectEqual();
  await rig.stop();
  return rig;
}

async function loseSlot(rig: PipelineRig): Promise<void> {
  await rig.source(`select pg_drop_replication_slot('${rig.slot}')`);
}

async function proved(rig: PipelineRig): Promise<void> {
  const unproved = "select table_name from millrace.table_copy where is_unproved and point_lsn > '0/0'";
  await waitFor("every table to be proved", async () => (await rig.sink(unproved)).length === 0, {
    timeoutMs: 60_000,
  });
}

/** Tables that were copied as a whole, and how many rows were copied by their keys. */
function copied(rig: PipelineRig, from: number): { readonly whole: string[]; readonly rows: number } {
  const copies = rig.copies.slice(from);
  const whole = copies.filter(({ part }) => part?.kind !== "rows").map(({ table }) => table);
  const rows = copies.reduce((sum, { part }) => sum + (part?.kind === "rows" ? part.keys.length : 0), 0);
  return { whole: [...new Set(whole)].sort(), rows };
}

test("changes of every kind that were missed are found, and nothing is copied whole but what is new", async () => {
  await using rig = await streaming("every_kind");
  await rig.source(missed);
  await loseSlot(rig);
  const before = rig.copies.length;
  const writtenBefore = await rig.sink("select xmin::text from whole where id = 1");
  rig.start();
  expect(((await rig.ended()) as MillraceError).code).toBe("slot_missing");
  rig.resumes = true;
  rig.start();
  await rig.untilRealtime();
  await rig.source(
    "update b set n = n + 1 where id % 30 = 0; delete from a where id = 200; insert into whole values (0, 'new')",
  );
  await proved(rig);
  await rig.expectEqual();
  expect(copied(rig, before).whole).toEqual(["made"]);
  expect(copied(rig, before).rows).toBeLessThan(600);
  expect(await rig.sink("select xmin::text from whole where id = 1")).toEqual(writtenBefore);
  expect(rig.resumes).toBe(false);
  await waitFor(
    "the end to be told",
    () => rig.table("a")?.state === "Streaming" && rig.progress !== null && !("resume" in rig.progress),
  );
  await rig.stop();
}, 120_000);

test("a slot that the server has invalidated is made again", async () => {
  await using rig = await streaming("invalidated");
  await rig.source("update a set n = 5 where id < 20; delete from b where id < 5");
  await removeLog();
  const before = rig.copies.length;
  rig.start();
  expect(((await rig.ended()) as MillraceError).code).toBe("slot_invalidated");
  rig.resumes = true;
  rig.start();
  await rig.untilRealtime();
  await proved(rig);
  await rig.expectEqual();
  expect(copied(rig, before)).toEqual({ whole: [], rows: 23 });
  await rig.stop();
}, 120_000);

test("a sink that was restored from a backup has less than the slot would bring", async () => {
  await using rig = await streaming("restored");
  const { sinkDatabase } = rig;
  await withoutSessions(sinkDatabase);
  await server.query(`create database backup_of_sink template "${sinkDatabase}"`);
  rig.start();
  await rig.untilRealtime();
  await rig.source("update a set n = 5 where id < 20; delete from b where id < 5; truncate emptied");
  await rig.expectEqual();
  await rig.stop();
  await server.query(`drop database "${sinkDatabase}" with (force)`);
  await server.query(`alter database backup_of_sink rename to "${sinkDatabase}"`);
  const before = rig.copies.length;
  rig.start();
  expect(((await rig.ended()) as MillraceError).code).toBe("slot_ahead");
  rig.resumes = true;
  rig.start();
  await rig.untilRealtime();
  await proved(rig);
  await rig.expectEqual();
  expect(copied(rig, before)).toEqual({ whole: [], rows: 223 });
  await rig.stop();
}, 120_000);

test("a slot that is there after all is made anew too, and what was not heard yet is found", async () => {
  await using rig = await streaming("no_loss");
  await rig.source("update a set n = 5 where id < 20");
  const before = rig.copies.length;
  rig.resumes = true;
  rig.start();
  await rig.untilRealtime();
  await proved(rig);
  await rig.expectEqual();
  expect(copied(rig, before)).toEqual({ whole: [], rows: 19 });
  expect(rig.resumes).toBe(false);
  await rig.stop();
}, 60_000);

test("tables that were renamed meanwhile are known by what they were when they were copied", async () => {
  await using rig = await streaming(
    "renamed",
    `create table keyless (id int, text text); insert into keyless select g, 'k' from generate_series(1, 50) g;
     alter table keyless replica identity full;
     create table plain (id int primary key, text text); insert into plain select g, 'p' from generate_series(1, 50) g`,
  );
  await loseSlot(rig);
  await rig.source(`delete from keyless where id < 10; update plain set text = 'other' where id < 10;
    alter table keyless rename to t; alter table plain rename to keyless; alter table t rename to plain`);
  const before = rig.copies.length;
  rig.resumes = true;
  rig.start();
  await rig.untilRealtime();
  await proved(rig);
  await rig.expectEqual();
  expect(copied(rig, before).whole).toEqual(["plain"]);
  await rig.stop();
}, 60_000);

test("tables whose rows cannot be compared one by one are copied whole", async () => {
  const odd = `create table keyless (id int, text text); insert into keyless select g, 'k' from generate_series(1, 50) g;
    alter table keyless replica identity full;
    create table uniques (id int primary key, text text); insert into uniques select g, 'u' || g from generate_series(1, 50) g;
    create table plain (id int primary key, text text); insert into plain select g, 'p' from generate_series(1, 50) g`;
  await using rig = await streaming("odd", odd);
  await rig.sink("create unique index on uniques (text)");
  await rig.source(`delete from keyless where id < 10; update plain set text = 'other' where id < 10;
    delete from uniques where id = 1; insert into uniques values (51, 'u1')`);
  await loseSlot(rig);
  const before = rig.copies.length;
  rig.resumes = true;
  rig.start();
  await rig.untilRealtime();
  await rig.source("delete from uniques where id = 2; insert into uniques values (52, 'u2')");
  await proved(rig);
  await rig.expectEqual();
  expect(copied(rig, before)).toEqual({ whole: ["keyless", "uniques"], rows: 9 });
  await rig.stop();
}, 60_000);

test("a table that cannot be compared now is told of, and the others go on", async () => {
  await using rig = await streaming("broken");
  await rig.source("update a set n = 5 where id < 20; update whole set text = 'other' where id < 20");
  await loseSlot(rig);
  rig.resumes = true;
  let isBroken = true;
  rig.beforeComparison = async (table) => {
    if (isBroken && table === "whole") throw new MillraceError("sink_connection_lost", "It is broken.");
  };
  rig.start();
  await rig.untilRealtime();
  await waitFor("the reason", () => rig.table("whole")?.reason?.includes("It is broken.") === true, {
    timeoutMs: 30_000,
  });
  await waitFor("the others", () => rig.table("a")?.state === "Streaming", { timeoutMs: 30_000 });
  expect(rig.table("whole")?.state).toBe("Resuming");
  expect(rig.progress?.resume).toMatchObject({ tables: 5, tablesDone: 4 });
  isBroken = false;
  await proved(rig);
  await rig.expectEqual();
  await rig.stop();
}, 120_000);
