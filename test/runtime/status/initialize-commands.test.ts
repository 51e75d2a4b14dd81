// SQL that would help a connector that does not come beyond its initialization.

import { expect, test } from "bun:test";
import type { Status } from "../../../src/connector/status.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { RunHealth } from "../../../src/pipeline/run-health.ts";
import { fromWire } from "../../../src/runtime/run/replies.ts";
import type { RunLoop } from "../../../src/runtime/run/run-loop.ts";
import { superviseRun } from "../../../src/runtime/supervised-run.ts";
import { TaskDispatcher } from "../../../src/runtime/task-dispatcher.ts";
import { MainThreadChannel } from "../../../src/runtime/threads/main-thread-channel.ts";
import type { FromReplicationWorker } from "../../../src/runtime/threads/messages.ts";
import { wireError, workerReporter } from "../../../src/runtime/threads/worker-reporter.ts";
import { storedConnector } from "../../support/api/sample-connector.ts";
import { RuntimeFixture } from "../../support/runtime/runtime-fixture.ts";

const sql = "SELECT pg_terminate_backend(7)";
const connecting: Status = {
  state: { initialize: { sub_state: "connect", commands: [] } },
  status: { start: {} },
};

test("a warning brings its SQL, for as long as it stands", () => {
  const reported: unknown[] = [];
  const main = new MainThreadChannel<FromReplicationWorker>((message) => {
    if (message.type === "status") reported.push(message.status.state.initialize?.commands);
  });
  const health = new RunHealth(workerReporter(main, "slot"));
  health.step("make the replication slot");
  health.warn("source slot", "It waits for process 7.", [sql]);
  health.warn("source heartbeat", "The role may not write.");
  health.warn("source slot", null);
  expect(reported).toEqual([[], [`${sql};`], [`${sql};`], []]);
});

test("an error brings its SQL to the status, which shows it as long as the reason", async () => {
  await using runtime = await RuntimeFixture.open();
  const { state, board, threads, log } = runtime;
  const stored = storedConnector("orders");
  const seen: Status[] = [];
  const look = () => {
    const { state, status } = board.status(stored.id);
    seen.push({ state, status });
  };
  let attempts = 0;
  const clock = { nowMs: Date.now, monotonicMs: () => performance.now(), random: () => 0 };
  const shared = { state, log, ...clock, sleep: async () => look() };
  const nobody = { onTaskWaiting: () => {}, onVerified: () => {}, onTaskFailed: () => {} };
  const tasks = new TaskDispatcher(stored.id, { ...shared, ...nobody, store: state.tasks, term: null });
  const failures = [
    new MillraceError("slot_creation_blocked", "It waits for process 7.", { commands: [sql] }),
    new MillraceError("source_permission_denied", "It may not replicate.", { commands: ["ALTER ROLE r"] }),
  ];
  const noCall = () => {};
  const loop: RunLoop = superviseRun(stored, null, tasks, {
    ...shared,
    board,
    threads,
    mayRun: () => true,
    startRun: (_request, events) => {
      events.status("Connector", connecting);
      look();
      const error = failures[attempts++] ?? null;
      const ended = Promise.resolve(error && fromWire(wireError(error)));
      return { ended, offerTask: noCall, cancelTask: noCall, stop: noCall, cut: noCall };
    },
  });
  await loop.ended;
  await tasks.close();
  look();
  const waits = { retry: { attempt: 1, reason: "It waits for process 7." } };
  const withSql = (commands: string[]) => ({ initialize: { sub_state: "connect", commands } });
  expect(seen).toEqual([
    connecting,
    { state: withSql([`${sql};`]), status: waits },
    { state: withSql([`${sql};`]), status: waits },
    { state: withSql(["ALTER ROLE r;"]), status: { failed: { reason: expect.any(String) } } },
  ]);
});
