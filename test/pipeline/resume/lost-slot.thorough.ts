// A slot is lost, and the connector goes on with a new one: what the sink has missed is found by comparing its tables, and nothing else is copied.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Catalog } from "../../../src/connector/config/catalog.ts";
import type { ErrorCode } from "../../../src/errors/error-codes.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { copiedSince, dropSlot, proved, resume } from "../../support/pipeline/resumption.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { slotRelease } from "../../support/servers/slot-release.ts";
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

/** The run meets the loss, and ends. */
async function expectLost(rig: PipelineRig, code: ErrorCode): Promise<void> {
  rig.start();
  expect(((await rig.ended()) as MillraceError).code).toBe(code);
}

test("changes of every kind that were missed are found, and nothing is copied whole but what is new", async () => {
  await using rig = await streaming("every_kind");
  await rig.source(missed);
  await dropSlot(rig);
  const writtenBefore = await rig.sink("select xmin::text from whole where id = 1");
  await expectLost(rig, "slot_missing");
  const { whole, rows } = await resume(
    rig,
    "update b set n = n + 1 where id % 30 = 0; delete from a where id = 200; insert into whole values (0, 'new')",
  );
  expect(whole).toEqual(["made"]);
  expect(rows).toBeLessThan(600);
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
  await expectLost(rig, "slot_invalidated");
  expect(await resume(rig)).toEqual({ whole: [], rows: 23 });
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
  await expectLost(rig, "slot_ahead");
  expect(await resume(rig)).toEqual({ whole: [], rows: 223 });
  await rig.stop();
}, 120_000);

test("a slot that is there after all is made anew too, and what was not heard yet is found", async () => {
  await using rig = await streaming("no_loss");
  await rig.source("update a set n = 5 where id < 20");
  expect(await resume(rig)).toEqual({ whole: [], rows: 19 });
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
  await dropSlot(rig);
  await rig.source(`delete from keyless where id < 10; update plain set text = 'other' where id < 10;
    alter table keyless rename to t; alter table plain rename to keyless; alter table t rename to plain`);
  expect((await resume(rig)).whole).toEqual(["plain"]);
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
  await dropSlot(rig);
  const sql = "delete from uniques where id = 2; insert into uniques values (52, 'u2')";
  expect(await resume(rig, sql)).toEqual({ whole: ["keyless", "uniques"], rows: 9 });
  await rig.stop();
}, 60_000);

test("a table whose key is hashed is copied whole", async () => {
  const mail = { name: "mail", action: "Include", hash: {} } as const;
  const tables = ["mails", "people"].map((name) => ({
    name,
    action: "Include" as const,
    history_enabled: false,
    columns: [mail],
  }));
  const catalog: Catalog = {
    name: "db",
    default_action: "Include",
    column_hashing: { algorithm: "Sha256", salt: "pepper" },
    schemas: [{ name: "public", action: "Include", tables }],
  };
  await using rig = await streaming(
    "key_hashed",
    `create table mails (mail text primary key, n int); insert into mails select 'm' || g, g from generate_series(1, 50) g;
     create table people (id int primary key, mail text); insert into people select g, 'm' || g from generate_series(1, 50) g`,
    { source: { catalog } },
  );
  await dropSlot(rig);
  await rig.source("delete from mails where n < 10; update people set mail = 'other' where id < 10");
  expect(await resume(rig)).toEqual({ whole: ["mails"], rows: 9 });
  await rig.stop();
}, 60_000);

test("tables that are merged at the sink are copied whole, and keep the rows that were deleted, as after each copy", async () => {
  const naming = {
    FivetranNaming: { schema_prefix: null, column_conflict: "Fail", table_conflict: "Merge" },
  } as const;
  const source = `create table "orderItem" (id int primary key, v text); insert into "orderItem" select g, 'a' from generate_series(1, 20) g;
    create table "OrderItem" (id int primary key, v text); insert into "OrderItem" select g, 'b' from generate_series(101, 120) g;
    create table plain (id int primary key, v text); insert into plain select g, 'p' from generate_series(1, 20) g`;
  await using rig = await PipelineRig.streaming(server, "merged", { source }, { naming });
  await rig.stop();
  await rig.source(
    `update "orderItem" set v = 'x' where id < 5; delete from "OrderItem" where id > 115; update plain set v = 'x' where id < 3`,
  );
  await dropSlot(rig);
  const from = rig.copies.length;
  rig.resumes = true;
  rig.start();
  await rig.untilRealtime();
  await proved(rig);
  expect(copiedSince(rig, from)).toEqual({ whole: ["OrderItem", "orderItem"], rows: 2 });
  const all = `select id, v from "orderItem" union all select id, v from "OrderItem" order by 1`;
  expect(await rig.sink("select id, v from order_item where id <= 115 order by 1")).toEqual(
    await rig.source(all),
  );
  expect(await rig.sink("select id from order_item where id > 115")).toHaveLength(5);
  await rig.stop();
}, 60_000);

test("a table that cannot be compared now is told of, and the others go on", async () => {
  await using rig = await streaming("broken");
  await rig.source("update a set n = 5 where id < 20; update whole set text = 'other' where id < 20");
  await dropSlot(rig);
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

test("a table whose repair the sink refuses is told of, and the others go on", async () => {
  await using rig = await streaming("refused");
  await rig.source("update a set n = 5 where id < 20; update whole set text = 'other' where id < 20");
  await rig.sink("alter table a add constraint small check (n < 5)");
  await dropSlot(rig);
  rig.resumes = true;
  rig.start();
  await rig.untilRealtime();
  await waitFor("the reason", () => rig.table("a")?.reason?.includes("small") === true, {
    timeoutMs: 30_000,
  });
  await waitFor("the others", () => rig.progress?.resume?.tablesDone === 4, { timeoutMs: 30_000 });
  expect([rig.table("a")?.state, rig.table("whole")?.state]).toEqual(["Resuming", "Streaming"]);
  await rig.sink("alter table a drop constraint small");
  await proved(rig);
  await rig.expectEqual();
  await rig.stop();
}, 120_000);

test("rows that are missing wait for the comparison, and the stream does not wait for a transaction of the source", async () => {
  const source = `create table far (id int primary key, n int, far text); alter table far alter far set storage external;
    insert into far select g, 0, repeat('f' || g, 1000) from generate_series(1, 50) g; create table other (id int primary key)`;
  await using rig = await streaming("far", source);
  await rig.source("insert into far select g, 0, repeat('new' || g, 1000) from generate_series(51, 60) g");
  await dropSlot(rig);
  const isOpen = Promise.withResolvers<void>();
  rig.resumes = true;
  // No comparison begins before the transaction does.
  rig.beforePoint = () => isOpen.promise;
  rig.start();
  await rig.untilRealtime();
  const open = await rig.sourceSession();
  await open.query("begin; select pg_current_xact_id()");
  isOpen.resolve();
  // Some values are not sent; a row of them moves.
  await rig.source("update far set n = 1 where id > 50; update far set id = id + 100 where id in (1, 60)");
  await rig.source("insert into other values (1)");
  await waitFor("the stream", async () => (await rig.sink("select from other")).length === 1);
  const waiting = await rig.sink("select from millrace.owed_row");
  await open.query("commit");
  await open.end();
  await proved(rig);
  await rig.expectEqual();
  expect(waiting.length).toBeGreaterThan(9);
  expect(await rig.sink("select from millrace.owed_row")).toEqual([]);
  await rig.stop();
}, 60_000);

test("a transaction in progress that is given up does not make it resume once more", async () => {
  // While tables are to be proved, none comes so.
  await using rig = await streaming("given_up", "select 1", { maxBufferedRows: 200 });
  await rig.sendInProgress();
  await rig.source("create table a (id int primary key); create table b (id int primary key)");
  await slotRelease(server, rig.slot);
  await dropSlot(rig);
  await expectLost(rig, "slot_missing");
  await resume(rig);
  await using large = await rig.sourceSession();
  await large.query("begin; alter table a add n int; insert into a select generate_series(1, 3000)");
  // Another slot would wait for the transaction.
  await waitFor("the next attempt", () => rig.streamForms.length === 3);
  await rig.source("insert into b values (1)");
  await rig.expectSame("select * from b");
  await large.query("commit");
  await rig.expectEqual();
  await rig.stop();
});
