// The source is set back to an earlier moment, as from a snapshot of its disks, and has written past the checkpoint since: system identifier and
// timeline are the same, and its slot leads on from the checkpoint.

import { expect, test } from "bun:test";
import { rm } from "node:fs/promises";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { resume } from "../../support/pipeline/resumption.ts";
import { memorySourceState } from "../../support/pipeline/source-state.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

const settings = { fsync: "off" };
const pace = { slotReachedAfterMs: 50 };

/** With the owner of its files. */
async function copy(from: string, to: string): Promise<void> {
  expect(await Bun.spawn(["cp", "-a", from, to]).exited).toBe(0);
}

test("it is noticed, and resumed from", async () => {
  await using server = await PostgresServer.start({ settings });
  await using sinkServer = await PostgresServer.start({ settings });
  const state = memorySourceState();
  await using rig = await PipelineRig.create(server, "set_back", { sinkServer, state, pace });
  await rig.source("create table t (id int primary key, v text)");
  rig.start();
  await rig.untilRealtime();
  await rig.source("insert into t select g, 'before' from generate_series(1, 100) g");
  await rig.expectEqual();
  await rig.stop();
  await server.stop();
  const [data, backup] = [`${server.directory}/data`, `${server.directory}/backup`];
  await copy(data, backup);

  await server.launch();
  rig.start();
  await rig.untilRealtime();
  let id = 1_000;
  // The slot moves when the server has told what runs.
  const hasReached = async () => {
    await rig.source(`insert into t values (${id++}, 'taken back')`);
    await rig.source("checkpoint");
    return (await state.load())?.includes("slot reached") === true;
  };
  await waitFor("the slot to be seen", hasReached, { timeoutMs: 30_000, intervalMs: 300 });
  const reached = await state.load();
  const isFurther = async () => (await hasReached()) && (await state.load()) !== reached;
  await waitFor("the slot to move", isFurther, { timeoutMs: 30_000, intervalMs: 300 });
  await rig.expectEqual();
  await rig.crash();

  // A server that only dies has the slot where it was.
  await server.stop("immediate");
  await server.launch();
  rig.start();
  await rig.untilRealtime();
  await rig.expectEqual();
  await rig.stop();

  await server.stop();
  await rm(data, { recursive: true });
  await copy(backup, data);
  await server.launch();
  await rig.source("insert into t select g, 'instead' from generate_series(200, 300) g");
  await rig.source("select pg_switch_wal()");
  await rig.source("insert into t values (301, 'instead')");
  const place = await rig.sink<{ at: string }>("select max(resume_lsn)::text as at from millrace.checkpoint");
  const isPast = `select pg_current_wal_flush_lsn() > '${place[0]?.at}' as past`;
  expect(await rig.source(isPast)).toEqual([{ past: true }]);
  rig.start();
  expect(((await rig.ended()) as MillraceError).code).toBe("source_behind");
  await resume(rig);
  await rig.stop();
  rig.start();
  await rig.untilRealtime();
  await rig.stop();
}, 120_000);
