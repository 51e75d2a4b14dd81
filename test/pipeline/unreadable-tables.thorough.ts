// Tables that cannot be read: each is left by itself, with its reason, while the others are copied and streamed; it is copied when
// the cause is gone, and has every change then.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { MillraceError } from "../../src/errors/millrace-error.ts";
import { fullConnection, logicalReplication } from "../support/api/connector-config.ts";
import { PipelineRig, type RigOptions } from "../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

const large = "repeat(md5(i::text), 200)";
const tables = `
  create table fine (id int primary key, v text); insert into fine select i, 'v' from generate_series(1, 500) i;
  create table denied (id int primary key, v text, big text); alter table denied alter big set storage external;
  insert into denied select i, 'v', ${large} from generate_series(1, 500) i;
  create table hidden (id int primary key, v text); insert into hidden select i, 'v' from generate_series(1, 50) i;
  alter table hidden enable row level security; create policy half on hidden using (id % 2 = 0);
  create table locked (id int primary key, v text); insert into locked values (1, 'v');
  create table bare (v text); insert into bare values ('a'), ('a')`;
const grants = "grant select on fine, hidden, locked to reader";

let server: PostgresServer;

beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  await server.query("create role reader login replication");
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

/** A connector whose role may read what it is granted, of tables that somebody else publishes. */
function asReader(name: string, change: RigOptions = {}): RigOptions {
  const settings = { ...server.connection(`${name}_source`), user: "reader" };
  return {
    source: {
      connection: fullConnection(settings, { operation_lock_timeout_seconds: 1 }),
      replication_type: { logical_replication: logicalReplication("everything") },
      catalog: { name, default_action: "Include", schemas: [] },
    },
    retryPace: { againMs: 100, mostMs: 400, changedAgainMs: 50 },
    ...change,
  };
}

/** Overwrites the table's first page, as a failing disk would. */
async function damage(database: string, table: string): Promise<void> {
  const [row] = await server.query<{ path: string }>(
    `select pg_relation_filepath('${table}') as path`,
    database,
  );
  await server.query("checkpoint", database);
  await server.stop();
  const file = await open(join(server.directory, "data", row?.path ?? ""), "r+");
  await file.write(new Uint8Array(8192).fill(0xee), 0, 8192, 0);
  await file.close();
  await server.launch();
}

const namesOf = (rig: PipelineRig) => rig.setAside.map(({ name }) => name).toSorted();

test("tables that cannot be read stand alone, with their reasons, and lose nothing", async () => {
  await using rig = await PipelineRig.create(server, "alone", asReader("alone"));
  await rig.source(`${tables}; create table damaged (id int primary key); insert into damaged values (1); ${grants};
    grant select on damaged to reader; create publication everything for all tables`);
  await damage(rig.sourceDatabase, "damaged");
  const holder = await server.connect(rig.sourceDatabase);
  rig.beforeCopies = async () => {
    await holder.query("begin; lock table locked in access exclusive mode");
  };
  rig.start();
  await rig.untilRealtime();
  await holder.end();
  expect(namesOf(rig)).toEqual(["bare", "damaged", "denied", "hidden", "locked"]);
  const reasons = Object.fromEntries(rig.setAside.map(({ name, reason }) => [name, reason]));
  expect(reasons).toEqual({
    bare: expect.stringContaining('GRANT SELECT ON "public"."bare" TO "reader"'),
    damaged: expect.stringContaining("invalid page in block 0"),
    denied: expect.stringContaining('GRANT SELECT ON "public"."denied" TO "reader"'),
    hidden: expect.stringContaining("BYPASSRLS"),
    locked: expect.stringContaining("is locked by another session"),
  });
  expect(rig.warnings.join()).toContain("public.denied was set aside");

  // The stream goes on, and the slot with it; theirs are left out.
  const change = (n: number) =>
    rig.source(
      `update fine set v = '${n}' where id <= 10; update denied set v = '${n}' where id between 10 and 30; delete from denied where id = ${n};
       insert into denied select ${n} * 1000 + i, 'new', ${large} from generate_series(1, 5) i; insert into bare values ('${n}');
       update hidden set v = '${n}' where id < 4; delete from hidden where id = ${n}; select pg_current_wal_lsn()::text as lsn`,
    );
  const [place] = await change(1);
  await rig.expectSame("select * from fine order by id");
  expect(await rig.sink("select from pg_class where relname in ('denied', 'hidden', 'bare')")).toEqual([]);
  const isFree = async () =>
    (
      await rig.source(
        `select from pg_replication_slots where slot_name = '${rig.slot}' and confirmed_flush_lsn >= '${place?.lsn}'`,
      )
    ).length === 1;
  await waitFor("the slot to go on", isFree);

  // It dies, is read again in vain, and goes on.
  await rig.crash();
  await change(2);
  rig.beforeCopies = async () => {};
  rig.start();
  await rig.untilRealtime();
  await change(3);
  await rig.expectSame("select * from fine order by id");
  await waitFor("the copy of one that is locked no more", () => !namesOf(rig).includes("locked"));
  expect(namesOf(rig)).toEqual(["bare", "damaged", "denied", "hidden"]);
  await rig.source("insert into locked values (2, 'w'); grant select on denied, bare to reader");
  await server.query("alter role reader bypassrls");
  await waitFor("the copies", () => rig.setAside.length === 1);
  await change(4);
  await rig.source("drop table damaged");
  await waitFor("it to be gone", () => rig.setAside.length === 0);
  await rig.expectEqual();
  await change(5);
  await rig.expectEqual();

  // One that comes later: nothing is kept for a copy that nobody knows when to expect.
  await rig.source("create table late (id int primary key); insert into late values (1)");
  await waitFor("it to be set aside", () => namesOf(rig).includes("late"));
  await rig.source("insert into late values (2); delete from late where id = 1");
  await change(6);
  await rig.expectSame("select * from fine order by id");
  const kept =
    "select (select count(*)::int from millrace.divided_copy) + (select count(*)::int from millrace.copied_range) as kept";
  await waitFor("nothing to be kept", async () => (await rig.sink<{ kept: number }>(kept))[0]?.kept === 0);
  await rig.source("grant select on late to reader");
  await waitFor("its copy", () => rig.setAside.length === 0);
  await rig.expectEqual();
  await rig.stop();
});

test("a table that is altered, rewritten or dropped just before its copy does not keep the others", async () => {
  await using rig = await PipelineRig.create(server, "altered", {
    retryPace: { againMs: 100, mostMs: 400, changedAgainMs: 50 },
  });
  await rig.source(tables);
  rig.beforeCopies = async () => {
    await rig.source(
      `alter table denied add column more int default 3; alter table locked alter id type bigint; drop table bare;
       insert into denied values (9000, 'late', 'b', 4)`,
    );
  };
  rig.start();
  await rig.untilRealtime();
  await rig.source("insert into locked values (5000000000, 'x'); update denied set v = 'y' where id = 9000");
  await rig.expectEqual();
  expect(rig.setAside).toEqual([]);
  await rig.stop();
});

test("without a stream it is tried some times; then the run ends with the reasons, and the others are there", async () => {
  const pace = { againMs: 20, mostMs: 40, changedAgainMs: 20 };
  await server.query("alter role reader nobypassrls");
  await using rig = await PipelineRig.create(
    server,
    "round",
    asReader("round", { work: "copies", retryPace: pace }),
  );
  await rig.source(`${tables}; ${grants}; grant select on bare to reader`);
  rig.start();
  const error = (await rig.ended()) as MillraceError;
  expect([error.code, error.retry]).toEqual(["source_permission_denied", "permanent"]);
  expect(error.message).toContain("2 of the tables could not be copied; the others were. ");
  expect(error.message).toContain("BYPASSRLS");
  const made = await rig.sink(
    "select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace",
  );
  expect(made.map(({ relname }) => relname).toSorted()).toEqual(["bare", "fine", "locked"]);

  await rig.source("grant select on denied to reader; alter table hidden disable row level security");
  rig.start();
  expect(await rig.ended()).toBeNull();
  await rig.expectSame("select * from denied order by id");
  await rig.expectSame("select * from hidden order by id");
});

test("a table that comes while no slot is free for its copy does not keep the stream", async () => {
  await using small = await PostgresServer.start({ settings: { fsync: "off", max_replication_slots: "2" } });
  await using rig = await PipelineRig.streaming(
    small,
    "slots",
    { source: "create table t (id int primary key)" },
    { retryPace: { againMs: 100, mostMs: 400, changedAgainMs: 50 } },
  );
  await rig.source("select pg_create_physical_replication_slot('other')");
  await rig.source(
    "create table late (id int primary key, v text); insert into late values (1, 'a'), (2, 'b')",
  );
  await waitFor("it to be set aside", () => namesOf(rig)[0] === "late");
  expect(rig.setAside[0]?.reason).toContain("max_replication_slots");
  await rig.source(
    "insert into t values (1); update late set v = 'c' where id = 1; delete from late where id = 2",
  );
  await rig.expectSame("select * from t");
  await rig.source("select pg_drop_replication_slot('other')");
  await waitFor("its copy", () => rig.setAside.length === 0);
  await rig.expectEqual();
  await rig.stop();
});
