// What a run tells of each of its tables: its state, how far its copy has come, and how many changes the stream has brought.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { TableStatus } from "../../../src/connector/table-status.ts";
import { postgresSource } from "../../support/api/connector-config.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

setDefaultTimeout(60_000);

let server: PostgresServer;
beforeAll(async () => {
  const settings = { fsync: "off", max_replication_slots: "40", max_wal_senders: "40" };
  server = await PostgresServer.start({ settings });
});
afterAll(() => server[Symbol.asyncDispose]());

const statesOf = (pair: PipelineRig) =>
  Object.fromEntries(pair.tables.map(({ schema, name, state }) => [`${schema}.${name}`, state]));

async function untilStates(pair: PipelineRig, states: Record<string, TableStatus["state"]>): Promise<void> {
  const isSo = () => Bun.deepEquals(statesOf(pair), states);
  await waitFor("the states", isSo).catch(() => {});
  expect(statesOf(pair)).toEqual(states);
}

async function untilCounts(pair: PipelineRig, counts: Record<string, number>): Promise<void> {
  const seen = () => Object.fromEntries(pair.tables.map(({ name, rows_in }) => [name, rows_in]));
  await waitFor("the counts", () => Bun.deepEquals(seen(), counts)).catch(() => {});
  expect(seen()).toEqual(counts);
}

test("a copy into a table that has rows says when all rows are read and are being written into it", async () => {
  await using pair = await PipelineRig.create(server, "written", {});
  const table = "create table t (id int primary key, v text)";
  await pair.source(`${table}; insert into t select g, 'v' from generate_series(1, 500) g; analyze t`);
  await pair.sink(`${table}; insert into t values (1, 'old')`);
  await server.with(pair.sinkDatabase, async (other) => {
    // Whoever writes into the table waits; who reads it does not.
    await other.query("begin; lock table t in share mode");
    pair.start();
    await waitFor("the phase", () => pair.table("t")?.copy?.phase === "Writing");
    expect(pair.table("t")?.copy).toMatchObject({ estimated_rows: 500, phase: "Writing" });
    await waitFor("the run's phase", () => pair.progress?.snapshot.phase === "Writing");
    await other.query("rollback");
  });
  await pair.expectEqual();
}, 60_000);

test("tables wait, are copied and are streamed; those that are not taken say why", async () => {
  const catalog = {
    name: "stand_source",
    default_action: "Include" as const,
    schemas: [{ name: "hidden", action: "Exclude" as const, tables: [] }],
  };
  await using pair = await PipelineRig.create(server, "stand", { source: { catalog }, parallelCopies: 1 });
  await pair.source(`
    create table big (id int primary key, v text); insert into big select g, 'v' from generate_series(1, 5000) g; analyze big;
    create table small (id int primary key);
    create schema hidden; create table hidden.h (id int);
    create unlogged table fleeting (id int); create temporary table gone (id int);
    create foreign data wrapper w; create server s foreign data wrapper w; create foreign table far (id int) server s;
    create view seen as select * from big`);
  const held = Promise.withResolvers<void>();
  pair.copiesHeld = held.promise;
  pair.start();
  const excluded = {
    "hidden.h": "Excluded",
    "public.far": "Excluded",
    "public.fleeting": "Excluded",
  } as const;
  await untilStates(pair, { ...excluded, "public.big": "Copying", "public.small": "Waiting" });
  expect(pair.table("big")?.copy).toEqual({ rows: 0, bytes: 0, estimated_rows: 5000, phase: "Reading" });
  expect(pair.table("h")).toEqual({
    schema: "hidden",
    name: "h",
    state: "Excluded",
    rows_in: 0,
    history: false,
    reason: "The connector's catalog does not select it.",
  });
  expect(pair.table("fleeting")?.reason).toStartWith("It is unlogged");
  expect(pair.table("far")?.reason).toStartWith("It is a foreign table");
  held.resolve();
  await untilStates(pair, { ...excluded, "public.big": "Streaming", "public.small": "Streaming" });
  expect(pair.table("big")).toEqual({
    schema: "public",
    name: "big",
    state: "Streaming",
    rows_in: 0,
    history: false,
  });
  // What nobody takes changes as well.
  await pair.source(
    "drop table hidden.h; create table hidden.other (id int); create table late (id int primary key)",
  );
  const after = {
    "hidden.other": "Excluded",
    "public.far": "Excluded",
    "public.fleeting": "Excluded",
  } as const;
  const taken = {
    "public.big": "Streaming",
    "public.late": "Streaming",
    "public.small": "Streaming",
  } as const;
  await untilStates(pair, { ...after, ...taken });
});

test("changes are counted by table, over transactions, and each has the time of its last commit", async () => {
  await using pair = await PipelineRig.streaming(server, "counts", {
    source:
      "create table a (id int primary key, v int); create table b (id int primary key); create table c (id int)",
  });
  await pair.source("insert into a select g, 0 from generate_series(1, 100) g");
  await pair.source(`
    begin; insert into b values (1), (2); update a set v = 1 where id <= 10; savepoint s; insert into b values (3); rollback to s;
    delete from a where id = 1; commit;
    begin; insert into c values (1); rollback`);
  await untilCounts(pair, { a: 111, b: 2, c: 0 });
  expect(pair.table("c")?.last_change_at).toBeUndefined();
  const told = pair.table("b")?.last_change_at;
  expect(told).toBe(pair.table("a")?.last_change_at);
  expect(Math.abs(Date.parse(told!) - Date.now())).toBeLessThan(30_000);
  await pair.source("truncate a, c");
  await untilCounts(pair, { a: 112, b: 2, c: 1 });
  expect(pair.table("b")?.last_change_at).toBe(told!);
  expect(Date.parse(pair.table("c")!.last_change_at!)).toBeGreaterThanOrEqual(Date.parse(told!));
  await pair.expectEqual();
});

test("a transaction that comes in progress counts when it is committed", async () => {
  await using pair = await PipelineRig.create(server, "progress");
  await pair.source("create table a (id int primary key, v text); create table b (id int primary key)");
  await pair.sendInProgress();
  pair.start();
  await pair.untilRealtime();
  const fill = "insert into a select g, repeat('x', 1000) from generate_series";
  const session = await pair.sourceSession();
  await session.query(`begin; ${fill}(1, 60000) g`);
  await pair.source("insert into b values (1)");
  await untilCounts(pair, { a: 0, b: 1 });
  await session.query("rollback");
  await session.query(`begin; ${fill}(1, 30000) g`);
  await session.query("insert into b values (2); commit");
  await untilCounts(pair, { a: 30_000, b: 2 });
  expect(pair.table("a")?.last_change_at).toBe(pair.table("b")!.last_change_at!);
  await session.end();
  await pair.expectEqual();
});

test("a renamed table keeps its count, a dropped one goes, and one that comes later is copied", async () => {
  await using pair = await PipelineRig.streaming(server, "names", {
    source: "create table a (id int primary key); create table b (id int primary key)",
  });
  await pair.source("insert into a values (1), (2); insert into b values (1)");
  await untilCounts(pair, { a: 2, b: 1 });
  await pair.source(
    "alter table a rename to z; drop table b; create table late (id int primary key); insert into late values (1)",
  );
  await untilStates(pair, { "public.late": "Streaming", "public.z": "Streaming" });
  expect(pair.table("z")?.rows_in).toBe(2);
  await pair.source("insert into z values (3); insert into late values (2)");
  await waitFor("the change", () => pair.table("z")?.rows_in === 3);
});

test("a table that is set aside says what the status says of it", async () => {
  const nothing = { migration_strategy: { allowed: [], disable_all: false } };
  const source = "create table t (id int primary key, a int not null); create table u (id int primary key)";
  await using pair = await PipelineRig.streaming(server, "astand", { source }, { sink: nothing });
  await pair.source("alter table t add column b int; insert into t values (2, 2, 2)");
  await untilStates(pair, { "public.t": "SetAside", "public.u": "Streaming" });
  const [{ reason, commands }] = pair.setAside as [(typeof pair.setAside)[0]];
  expect(pair.table("t")).toMatchObject({ reason, commands, rows_in: 1 });
  expect(commands).not.toBeEmpty();
  // It stays so in the next run, and after a stop.
  await pair.stop();
  expect(statesOf(pair)).toEqual({ "public.t": "SetAside", "public.u": "Streaming" });
  pair.start();
  await pair.untilRealtime();
  await untilStates(pair, { "public.t": "SetAside", "public.u": "Streaming" });
  await pair.sink(commands.join(";"));
  await untilStates(pair, { "public.t": "Streaming", "public.u": "Streaming" });
  expect(pair.table("t")).not.toHaveProperty("reason");
  await pair.expectEqual();
});

test("a table that cannot be read says so, and is copied when it can", async () => {
  await server.query("create role standing login replication");
  const database = "denied_source";
  await using pair = await PipelineRig.create(server, "denied", {
    source: { connection: postgresSource({ ...server.connection(database), user: "standing" }).connection },
    retryPace: { againMs: 200, mostMs: 200, changedAgainMs: 100 },
  });
  await pair.source(`grant create on database ${database} to standing;
    create table a (id int primary key); alter table a owner to standing; insert into a values (1);
    create table b (id int primary key); alter table b owner to standing; revoke select on b from standing`);
  pair.start();
  await pair.untilRealtime();
  await untilStates(pair, { "public.a": "Streaming", "public.b": "Unreadable" });
  expect(pair.table("b")?.reason).toBe(pair.setAside[0]!.reason);
  expect(pair.table("b")?.reason).toStartWith("It could not be copied, and is tried again");
  await pair.source("grant select on b to standing");
  await untilStates(pair, { "public.a": "Streaming", "public.b": "Streaming" });
  await pair.stop();
});

test("a table that a task copies is shown as being copied, with its own figures", async () => {
  const source =
    "create table a (id int primary key); create table b (id int primary key); insert into a select generate_series(1, 3000)";
  await using pair = await PipelineRig.streaming(server, "tasked", { source });
  await pair.expectEqual();
  const held = Promise.withResolvers<void>();
  pair.copiesHeld = held.promise;
  const task = pair.snapshot("a", false);
  await untilStates(pair, { "public.a": "Copying", "public.b": "Streaming" });
  await pair.source("insert into a values (5000)");
  await waitFor("the change", () => pair.table("a")?.rows_in === 1);
  expect(pair.table("a")?.copy).toMatchObject({ rows: 0 });
  held.resolve();
  expect(await task).toBeNull();
  await untilStates(pair, { "public.a": "Streaming", "public.b": "Streaming" });
  expect(pair.table("a")).not.toHaveProperty("copy");
});

test("without copies a table is streamed from the beginning", async () => {
  const source = "create table a (id int primary key); insert into a values (1)";
  const sink = "create table a (id int primary key)";
  await using pair = await PipelineRig.streaming(
    server,
    "skipped",
    { source, sink },
    { skipSnapshots: true },
  );
  await untilStates(pair, { "public.a": "Streaming" });
});

test("a run that is broken off amid a copy leaves its figures, and the next one goes on", async () => {
  await using pair = await PipelineRig.create(server, "broken", { parallelCopies: 1 });
  await pair.source("create table a (id int primary key); insert into a select generate_series(1, 3000)");
  pair.copiesHeld = new Promise(() => {});
  pair.start();
  await untilStates(pair, { "public.a": "Copying" });
  await pair.crash();
  expect(statesOf(pair)).toEqual({ "public.a": "Copying" });
  pair.copiesHeld = Promise.resolve();
  pair.start();
  await pair.untilRealtime();
  await untilStates(pair, { "public.a": "Streaming" });
  await pair.source("insert into a values (4000)");
  await untilCounts(pair, { a: 1 });
});

describe("partitioned tables", () => {
  const setup = `create table p (id int primary key) partition by range (id); create table p1 partition of p for values from (0) to (10);
    create table p2 partition of p for values from (10) to (20); insert into p values (1), (11)`;
  const change = "insert into p values (2), (12), (13); update p set id = 14 where id = 2";

  test("are their root's", async () => {
    const source = { partitions_as_root: true };
    await using pair = await PipelineRig.streaming(server, "roots", { source: setup }, { source });
    await untilStates(pair, { "public.p": "Streaming" });
    await pair.source(change);
    await untilCounts(pair, { p: 5 });
  });

  test("or are each a table", async () => {
    await using pair = await PipelineRig.streaming(server, "leaves", { source: setup });
    await untilStates(pair, { "public.p": "Excluded", "public.p1": "Streaming", "public.p2": "Streaming" });
    expect(pair.table("p")?.reason).toStartWith("It has no rows of its own");
    await pair.source(change);
    await untilCounts(pair, { p: 0, p1: 2, p2: 3 });
  });
});

test("a table that the user's publication leaves out says so", async () => {
  const source =
    "create table a (id int primary key); create table b (id int primary key); create publication mine for table a";
  await using pair = await PipelineRig.streaming(
    server,
    "mine",
    { source },
    {
      source: {
        replication_type: {
          logical_replication: {
            publication_name: "mine",
            retry_window_seconds: 0,
            skip_snapshots: false,
            toast_mode: "ReplicaIdentityFull",
          },
        },
      },
    },
  );
  await untilStates(pair, { "public.a": "Streaming", "public.b": "Excluded" });
  expect(pair.table("b")?.reason).toBe("Publication mine does not contain it.");
  // What is done to it there is not warned of: no copy of it can differ.
  await pair.source("alter table b add at float not null default random(); insert into a values (7)");
  await pair.expectSame("select count(*) from a");
  await pair.source("alter table a add at float not null default random(); insert into a (id) values (8)");
  await waitFor("the warning", () => pair.silentChanges.includes("Table public.a: column at"));
  expect(pair.silentChanges).not.toContain("public.b");
});
