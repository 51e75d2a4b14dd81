// A task copies a table that was altered, while changes from before that are still behind the stream.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig, type RigOptions } from "../support/pipeline-rig.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

/** The sink has 500 rows of `t`; the task's copy lacks them, and the stream has most of their deletes still to bring. */
async function copiedAhead(options: RigOptions): Promise<PipelineRig> {
  const id = crypto.randomUUID().slice(0, 8);
  const begin = "create table t (id int primary key, a int, b text); create table u (id int primary key)";
  const some = { isSupervised: true, maxBufferedRows: 7, ...options };
  const pair = await PipelineRig.streaming(server, `ahead_${id}`, { source: begin }, some);
  await pair.source(
    "insert into t select g, g, 'row' from generate_series(1, 500) g; insert into u values (1)",
  );
  await pair.expectEqual();
  // The stream waits for the copy of `u`, so that what comes meanwhile is behind it when the other task begins.
  await pair.source("alter table u add column a int");
  const copied: Promise<unknown>[] = [];
  pair.beforePoint = async () => {
    if (copied.length > 0) return;
    copied.push(pair.snapshot("t", false));
    await pair.source(
      "do $$ begin for i in 1..500 loop delete from t where id = i; commit; end loop; end $$",
    );
    await pair.source("alter table t rename a to c; insert into t values (501, 501, 'last')");
  };
  expect(await pair.snapshot("u", false)).toBeNull();
  expect(await Promise.all(copied)).toEqual([null]);
  return pair;
}

test("the table is copied again, and the stream waits for that", async () => {
  await using pair = await copiedAhead({});
  await pair.expectEqual();
  await pair.stop();
});

test("without copies of its own the connector goes on, warns of the deletes, and a task that truncates mends them", async () => {
  await using pair = await copiedAhead({ skipSnapshots: true });
  const isTold = (reason: string) =>
    reason.includes("Rows of public.t that were deleted") && reason.includes("may be left at the sink");
  await waitFor("the warning", () => pair.warnings.some(isTold));
  await pair.source("insert into t values (502, 502, 'new')");
  await waitFor("the stream", async () => (await pair.sink("select from t where c = 502")).length === 1);
  expect(await pair.snapshot("t", true)).toBeNull();
  await pair.expectEqual();
  await pair.stop();
});
