// A comparison that runs can be cancelled: it ends at once, leaves nothing behind, and the table can be compared again.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
/** A lock at the source's server would keep snapshots of the source from being taken. */
let sinkServer: PostgresServer;
beforeAll(async () => {
  const settings = { fsync: "off" };
  [server, sinkServer] = await Promise.all([
    PostgresServer.start({ settings }),
    PostgresServer.start({ settings }),
  ]);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await sinkServer[Symbol.asyncDispose]();
});

const snapshots =
  "select from pg_stat_activity where datname = current_database() and application_name like 'millrace copy %'";
const scans = "select from pg_stat_activity where query like 'copy (select%' and state = 'active'";
const reads =
  "select from pg_stat_activity where application_name like 'millrace snapshot%' and wait_event_type = 'Lock'";
const slots = "select from pg_replication_slots where database = current_database()";

/** Also the session of a snapshot that is waited for. */
async function untilNothingIsLeft(rig: PipelineRig): Promise<void> {
  await waitFor("nothing to be left", async () => {
    const left = [...(await rig.sink(snapshots)), ...(await rig.source(scans))];
    return left.length === 0 && (await rig.source(slots)).length === 1;
  });
}

test("a comparison that waits for a snapshot of the source is cancelled", async () => {
  await using rig = await PipelineRig.streaming(server, "cancelled1", {
    source: "create table t (id int primary key); insert into t select generate_series(1, 5000)",
  });
  {
    await using other = await rig.sourceSession();
    await other.query("begin; insert into t values (0)");
    void rig.verify("t");
    await waitFor("it to wait", async () => (await rig.source(slots)).length === 2);
    rig.cancelTasks();
    await untilNothingIsLeft(rig);
    await other.query("commit");
  }
  expect(await rig.verify("t")).toMatchObject({ rows: 5001, missing: 0, extra: 0, changed: 0 });
  await rig.stop();
});

test("a comparison that reads is cancelled: nothing is repaired any more", async () => {
  await using rig = await PipelineRig.streaming(server, "cancelled2", {
    source:
      "create table t (id int primary key, v text); insert into t select g, repeat('v', 50) from generate_series(1, 400000) g",
  });
  await rig.sink("update t set v = 'damaged' where id % 1000 = 0");
  void rig.verify("t", "Apply");
  await waitFor("it to read", async () => (await rig.source(scans)).length > 0, { intervalMs: 5 });
  rig.cancelTasks();
  await untilNothingIsLeft(rig);
  expect(await rig.sink("select count(*)::int as damaged from t where v = 'damaged'")).toEqual([
    { damaged: 400 },
  ]);
  expect(await rig.verify("t", "Apply")).toMatchObject({ rows: 400_000, changed: 400, repaired: 400 });
  await rig.expectEqual();
  await rig.stop();
});

/** Locks the source's table when both sides are open, and before the source's rows are read. */
async function lockOnceOpened(rig: PipelineRig, source: Awaited<ReturnType<PipelineRig["sourceSession"]>>) {
  await using other = await sinkServer.connect(rig.sinkDatabase);
  await other.query("begin; lock table t in access exclusive mode");
  const outcome = rig.verify("t");
  const isOpened = async () =>
    (await rig.sink("select from pg_locks where not granted and relation = 't'::regclass")).length > 0;
  while (true) {
    await waitFor("the sink's rows to be opened", isOpened, { intervalMs: 5 });
    await source.query("begin; lock table t in access exclusive mode");
    if (await isOpened()) break;
    // Too late for this attempt, which waits for a second. The next one comes to the same place.
    await source.query("rollback");
  }
  await other.query("commit");
  return outcome;
}

const whatItReads = [
  ["the table's size", "cancelled3", "create table t (id int primary key)"],
  // It cannot be read in parts.
  [
    "the table's rows",
    "cancelled4",
    "create table t (id int not null unique); alter table t replica identity using index t_id_key",
  ],
] as const;

test.each(whatItReads)(
  "a comparison that waits for %s is cancelled: the source's session ends",
  async (_, name, table) => {
    await using rig = await PipelineRig.streaming(
      server,
      name,
      { source: `${table}; insert into t select generate_series(1, 100)` },
      { sinkServer },
    );
    {
      await using other = await rig.sourceSession();
      void lockOnceOpened(rig, other);
      await waitFor("it to wait", async () => (await rig.source(reads)).length > 0);
      rig.cancelTasks();
      await waitFor("its session to end", async () => (await rig.source(reads)).length === 0, {
        timeoutMs: 12_000,
      });
    }
    await untilNothingIsLeft(rig);
    expect(await rig.verify("t")).toMatchObject({ rows: 100, missing: 0, extra: 0, changed: 0 });
    await rig.stop();
  },
);
