// WAL without changes for a connector is released: the slot advances while the connector's own tables are idle.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { parseLsn } from "../../../src/change/lsn.ts";
import { isAdvanceDue, isHeartbeatDue, streamPace } from "../../../src/source/postgres/stream/feedback.ts";
import { fullConnection, logicalReplication } from "../../support/api/connector-config.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { keptBytes, writeElsewhere } from "../../support/servers/foreign-log.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

const megabyte = 1024 * 1024;

let server: PostgresServer;
beforeAll(async () => {
  // The stream's timer runs at a quarter of wal_sender_timeout.
  const settings = { fsync: "off", wal_sender_timeout: "2s", max_wal_size: "64MB", min_wal_size: "32MB" };
  server = await PostgresServer.start({ settings });
  await server.createDatabase("elsewhere");
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
async function resting(options: RigOptions = {}): Promise<PipelineRig> {
  const pace = { advanceMs: 500, heartbeatMs: 1_000 };
  const rig = await PipelineRig.create(server, `idle${++count}`, { pace, ...options });
  await rig.source("create table t (id int primary key); insert into t values (1)");
  rig.start();
  await rig.expectEqual();
  return rig;
}

const checkpointOf = async (rig: PipelineRig) =>
  parseLsn((await rig.sink<{ at: string }>("select resume_lsn::text as at from millrace.checkpoint"))[0]!.at);

/** The server removes WAL at its checkpoints, and advances restart_lsn where it logged the running transactions. */
async function untilReleased(rig: PipelineRig, withinMs: number): Promise<void> {
  await waitFor(
    "the log is let go",
    async () => {
      await server.query("checkpoint");
      return (await keptBytes(server, rig.slot)) < 20 * megabyte;
    },
    { timeoutMs: withinMs, intervalMs: 500 },
  );
}

test("WAL of another database is released, and only what is durable is acknowledged", async () => {
  await using rig = await resting();
  await writeElsewhere(server, "elsewhere", "noise", 128);
  expect(await keptBytes(server, rig.slot)).toBeGreaterThan(40 * megabyte);
  await untilReleased(rig, 15_000);
  const [slot] = await rig.source<{ at: string }>(
    `select confirmed_flush_lsn::text as at from pg_replication_slots where slot_name = '${rig.slot}'`,
  );
  expect(parseLsn(slot!.at)).toBeLessThanOrEqual(await checkpointOf(rig));
  await rig.source("insert into t values (2)");
  await rig.expectEqual();
  await rig.stop();
});

test("WAL of tables that are not selected is released", async () => {
  const catalog = {
    name: "x",
    default_action: "Exclude" as const,
    schemas: [
      {
        name: "public",
        action: "Exclude" as const,
        tables: [{ name: "t", action: "Include" as const, columns: [], history_enabled: false }],
      },
    ],
  };
  await using rig = await PipelineRig.create(server, `idle${++count}`, {
    pace: { advanceMs: 500, heartbeatMs: 1_000 },
    source: { catalog },
  });
  await rig.source("create table t (id int primary key)");
  rig.start();
  await rig.untilRealtime();
  await writeElsewhere(server, rig.sourceDatabase, "unselected", 64);
  await untilReleased(rig, 15_000);
  await rig.source("insert into t values (2)");
  await waitFor("the row", async () => (await rig.sink("select from t")).length === 1);
  await rig.stop();
});

test("while the server is busy elsewhere, heartbeats are written now and then; while it is idle, none, and nothing at the sink", async () => {
  await using rig = await resting({ pace: { advanceMs: 200, heartbeatMs: 500 } });
  await rig.source("create extension pg_walinspect");
  const from = (await rig.source<{ at: string }>("select pg_current_wal_lsn()::text as at"))[0]!.at;
  const beats = async () => {
    const [row] = await rig.source<{ n: number }>(
      `select count(*)::int as n from pg_get_wal_records_info('${from}', pg_current_wal_lsn())
       where resource_manager = 'LogicalMessage' and description like '%millrace heartbeat%'`,
    );
    return row!.n;
  };
  await writeElsewhere(server, "elsewhere", "noise", 16);
  const busy = await waitFor("a heartbeat", beats);
  // A record that the server logs by itself, some seconds later, may advance the checkpoint once more.
  const now = async () => ({ beats: await beats(), place: await checkpointOf(rig) });
  const still = await waitFor(
    "three seconds in which nothing moves",
    async () => {
      const before = await now();
      await Bun.sleep(3_000);
      const after = await now();
      return after.beats === before.beats && after.place === before.place ? after : null;
    },
    { timeoutMs: 40_000 },
  );
  expect(still.beats).toBeLessThanOrEqual(busy + 2);
  await rig.stop();
});

test("a role that may not write heartbeats is warned once, and its run continues", async () => {
  const name = `idle${++count}`;
  await server.query("create role quiet login replication");
  await using rig = await PipelineRig.create(server, name, {
    pace: { advanceMs: 200, heartbeatMs: 300 },
    source: { connection: fullConnection(server.connection(`${name}_source`), { user: "quiet" }) },
  });
  await rig.source(`grant create on database ${name}_source to quiet; grant all on schema public to quiet;
    create table t (id int primary key); alter table t owner to quiet;
    do $$ begin execute format('revoke execute on function %s from public',
      (select oid::regprocedure from pg_proc where proname = 'pg_logical_emit_message' and proargtypes[2] = 'text'::regtype)); end $$`);
  rig.start();
  await rig.untilRealtime();
  await writeElsewhere(server, "elsewhere", "noise", 16);
  const warnings = () => rig.phases.filter(({ health }) => health.kind === "warning");
  await waitFor("the warning", () => warnings().length > 0);
  expect(JSON.stringify(warnings()[0])).toMatch(
    /GRANT EXECUTE ON FUNCTION pg_logical_emit_message\(boolean,text,text.*\) TO \\"quiet\\";/,
  );
  await writeElsewhere(server, "elsewhere", "noise", 16);
  await rig.source("insert into t values (1)");
  await rig.expectEqual();
  expect(warnings()).toHaveLength(1);
  // The role may not write the shape marker of an idle table either. The next row announces the shape.
  await rig.source("alter table t add column b int");
  await waitFor("the read of the table", () => warnings().length > 1);
  await rig.source("insert into t values (2, 2)");
  await rig.expectEqual();
  await rig.stop();
  expect(await rig.ended()).toBeNull();
});

test("a table that the role may not read any more keeps no other from getting its new shape", async () => {
  await server.query("create role barred login replication");
  const name = `idle${++count}`;
  await using rig = await PipelineRig.create(server, name, {
    source: {
      connection: fullConnection(server.connection(`${name}_source`), { user: "barred" }),
      replication_type: { logical_replication: logicalReplication("every") },
    },
  });
  await rig.source(`create table a (id int primary key); create table b (id int primary key);
    create publication every for all tables; grant select on a, b to barred`);
  rig.start();
  await rig.expectEqual();
  await rig.source("revoke select on a from barred; alter table a add n int; alter table b add n int");
  await waitFor("the column", async () => {
    const added = "select from pg_attribute where attrelid = 'b'::regclass and attname = 'n'";
    return (await rig.sink(added)).length === 1;
  });
  await rig.source("insert into a values (1, 1)");
  await rig.expectEqual();
  await rig.stop();
});

test("advances and heartbeats happen only when they are worth their cost", () => {
  const mb = BigInt(megabyte);
  expect(isAdvanceDue(0n, 1e9, false, streamPace)).toBe(false);
  expect(isAdvanceDue(mb, 4_000, true, streamPace)).toBe(true);
  expect(isAdvanceDue(mb, 3_999, false, streamPace)).toBe(false);
  expect(isAdvanceDue(1n, 31_999, false, streamPace)).toBe(false);
  expect(isAdvanceDue(1n, 32_000, false, streamPace)).toBe(true);
  expect(isAdvanceDue(mb - 1n, 299_999, true, streamPace)).toBe(false);
  expect(isAdvanceDue(1n, 300_000, true, streamPace)).toBe(true);
  expect(isHeartbeatDue(mb, 30_000, streamPace)).toBe(true);
  expect(isHeartbeatDue(mb, 29_999, streamPace)).toBe(false);
  expect(isHeartbeatDue(mb - 1n, 1e9, streamPace)).toBe(false);
});
