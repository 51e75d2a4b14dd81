// A comparison that runs can be cancelled: it ends at once, leaves nothing behind, and the table can be compared again.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig } from "../../support/pipeline-rig.ts";
import { PostgresServer } from "../../support/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const snapshots =
  "select from pg_stat_activity where datname = current_database() and application_name like 'millrace copy %'";
const scans = "select from pg_stat_activity where query like 'copy (select%' and state = 'active'";
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
