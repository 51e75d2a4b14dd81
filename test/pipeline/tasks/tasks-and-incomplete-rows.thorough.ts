// Rows that a task has to copy by their keys, and what the source does with them before they are read: the stream brings that behind the
// copy, and the source rests then.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { movingRows } from "../../support/loads/moving-rows.ts";
import { isWholeMatrix } from "../../support/matrix.ts";
import { PipelineRig, type RigOptions, type SinkServer } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { TcpProxy } from "../../support/servers/tcp-proxy.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const streaming = async (options: RigOptions = {}) => {
  const rig = await PipelineRig.streaming(
    server,
    `incomplete${++count}`,
    { source: movingRows("m", 100) },
    { parallelCopies: 5, ...options },
  );
  if (options.skipSnapshots) expect(await rig.snapshot("m", true)).toBeNull();
  await rig.expectEqual();
  return rig;
};

const exchange =
  "update m set id = -1 where id = 60; update m set id = 60 where id = 70; update m set id = 70 where id = -1";

interface Plan {
  readonly truncate?: boolean;
  /** Before incomplete rows are read, and behind what the stream has brought. */
  readonly between: string;
  /** What is read of them waits for it. */
  readonly held?: Promise<void>;
}

/** Row 60 is wrong at the sink, and the stream brings it in part. Returns when the source has done what it is to do. */
async function taskWithIncompleteRow(
  rig: PipelineRig,
  n: number,
  plan: Plan,
): Promise<{ task: Promise<unknown> }> {
  await rig.sink("update m set far = 'wrong' where id = 60");
  const first = Promise.withResolvers<void>();
  rig.copiesHeld = first.promise;
  const before = rig.copies.length;
  const task = rig.snapshot("m", plan.truncate ?? true);
  await waitFor("the copy to be read", () => rig.copies.length > before);
  await rig.source(`update m set n = ${n} where id in (60, 70)`);
  const changed = `select from m where n = ${n} and id in (60, 70)`;
  await waitFor("the changes", async () => (await rig.sink(changed)).length === 2);
  const done = Promise.withResolvers<void>();
  rig.beforePoint = async () => {
    rig.beforePoint = async () => {};
    if (plan.held) rig.copiesHeld = plan.held;
    await rig.source(`begin; ${plan.between}; commit`);
    done.resolve();
  };
  first.resolve();
  await done.promise;
  return { task };
}

test.each([false, true])(
  "rows that the stream brings in part behind a task's last point are there when it is done (skip_snapshots: %p)",
  async (skipSnapshots) => {
    await using rig = await streaming({ skipSnapshots });
    const { task } = await taskWithIncompleteRow(rig, 1, { between: exchange });
    expect(await task).toBeNull();
    expect(await rig.difference()).toEqual({});
    await rig.stop();
  },
);

test("more rows than are copied at once are there when the task is done, and when the next run has died amid them", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "incomplete_many",
    { source: movingRows("m", 10_400) },
    { parallelCopies: 5 },
  );
  for (const [n, calls] of [
    [1, null],
    [2, 30],
  ] as const) {
    const first = Promise.withResolvers<void>();
    rig.copiesHeld = first.promise;
    const before = rig.copies.length;
    const task = rig.snapshot("m", true);
    await waitFor("the copy to be read", () => rig.copies.length > before);
    await rig.source(`update m set n = ${n}`);
    await waitFor(
      "the changes",
      async () => (await rig.sink(`select from m where n <> ${n} limit 1`)).length === 0,
    );
    if (calls !== null) rig.dieAt(calls);
    first.resolve();
    if (calls === null) {
      expect(await task).toBeNull();
      expect(await rig.sink("select from millrace.owed_row limit 1")).toEqual([]);
      expect(rig.copies.filter(({ part }) => part?.kind === "rows").length).toBeGreaterThan(1);
    } else {
      await Promise.race([task, rig.ended()]);
      if (!rig.isDead) await rig.crash();
      rig.start();
      await rig.untilRealtime();
    }
    await rig.expectEqual();
  }
  await rig.stop();
});

test("where the run dies before they are there, the next one brings them soon", async () => {
  await using rig = await streaming();
  let copied = 0;
  for (let calls = 4; calls <= 24; calls += isWholeMatrix ? 2 : 4) {
    const { task } = await taskWithIncompleteRow(rig, calls, { between: exchange });
    rig.dieAt(calls);
    await Promise.race([task, rig.ended()]);
    if (!rig.isDead) await rig.crash();
    rig.start();
    await rig.untilRealtime();
    const isCopied = (await rig.sink("select from m where far = 'wrong'")).length === 0;
    if (isCopied) copied++;
    else expect(await rig.snapshot("m", true)).toBeNull();
    await rig.expectEqual(5_000);
    // What the stream brings of rows that were copied ahead of it comes before this.
    await rig.source(`update m set n = ${-calls} where id = 1`);
    await rig.expectEqual(5_000);
    const isComplete = async () => (await rig.sink("select from millrace.owed_row")).length === 0;
    await waitFor("nothing to be incomplete", isComplete, { timeoutMs: 5_000 });
  }
  expect(copied).toBeGreaterThan(2);
  await rig.stop();
});

test("a row of the sink's own, where one moves to meanwhile, is taken for no row of the copy", async () => {
  await using rig = await streaming();
  await rig.sink("insert into m values (600, 1, 'own', 'own'), (601, 1, 'own', 'own')");
  const between =
    "update m set id = 600 where id = 10; update m set id = 602 where id = 60; update m set id = 601 where id = 602";
  const { task } = await taskWithIncompleteRow(rig, 1, { truncate: false, between });
  expect(await task).toBeNull();
  await rig.expectEqual();
  await rig.stop();
});

test("a copy of rows that was committed without an answer is known of before any other change", async () => {
  await using proxy = await TcpProxy.start(server.port);
  const atProxy: SinkServer = {
    connection: (database) => ({ ...server.connection(database), port: proxy.port }),
    query: (sql, database) => server.query(sql, database),
    with: (database, work) => server.with(database, work),
    createDatabase: (database) => server.createDatabase(database),
  };
  await using rig = await streaming({ isSupervised: true, sinkServer: atProxy });
  const held = Promise.withResolvers<void>();
  // What is under 60 then is another row's, with the values that a row has that was right.
  const between = "update m set id = 600 where id = 60; update m set id = 60 where id = 70";
  const { task } = await taskWithIncompleteRow(rig, 1, { between, held: held.promise });
  await waitFor("the rows to be read", () => rig.copies.at(-1)?.part?.kind === "rows");
  const copying =
    "select from pg_stat_activity where datname = current_database() and query ~ '^copy pg_temp.millrace_copy' and state = 'active'";
  await waitFor("their session", async () => (await rig.sink(copying)).length > 0);
  // The statement alone: others drop tables on commit.
  const lost = proxy.loseReply("commit\0", "COMMIT");
  held.resolve();
  await lost;
  expect(await task).toMatchObject({ code: "sink_connection_lost" });
  await rig.expectEqual();
  expect(rig.streamForms.length).toBe(2);
  await rig.stop();
});
