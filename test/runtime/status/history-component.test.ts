// Which part of a connector an entry of its history is about.

import { expect, test } from "bun:test";
import type { ErrorCode } from "../../../src/errors/error-codes.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { RunHealth } from "../../../src/pipeline/run-health.ts";
import { superviseRun } from "../../../src/runtime/supervised-run.ts";
import { TaskDispatcher } from "../../../src/runtime/task-dispatcher.ts";
import { MainThreadChannel } from "../../../src/runtime/threads/main-thread-channel.ts";
import type { FromReplicationWorker } from "../../../src/runtime/threads/messages.ts";
import { workerReporter } from "../../../src/runtime/threads/worker-reporter.ts";
import { sampleRequest, storedConnector } from "../../support/api/sample-connector.ts";
import { RuntimeFixture } from "../../support/runtime/runtime-fixture.ts";

test("what a run reports of its sink alone is of the target", () => {
  const reported: string[] = [];
  const main = new MainThreadChannel<FromReplicationWorker>((message) => {
    if (message.type === "status")
      reported.push(`${message.component} ${Object.keys(message.status.status)[0]}`);
  });
  const health = new RunHealth(workerReporter(main, "slot"));
  health.step("connect");
  health.enter({ name: "realtime" });
  health.retrying(1, "The receiver answered 503.");
  health.retrying(null, "");
  health.warn("sink parking", "A message is parked.");
  health.warn("source slot", "The slot waits.");
  expect(reported).toEqual([
    "Connector start",
    "Source start",
    "Target retry",
    "Source heartbeat",
    "Target warning",
    "Source warning",
  ]);
});

test("a status that comes back after one of another component is recorded again", async () => {
  await using runtime = await RuntimeFixture.open();
  const { board, state } = runtime;
  await runtime.connectors.createOrReplace("orders", { ...sampleRequest(), disabled: true }, null);
  const runId = Bun.randomUUIDv7();
  board.begin("orders", runId);
  const realtime = { realtime: { name: "slot" } };
  const goesOn = () =>
    board.report("orders", runId, "Source", { state: realtime, status: { heartbeat: {} } });
  goesOn();
  goesOn();
  board.reportHealth("orders", runId, "Target", { retry: { attempt: 1, reason: "It answered 503." } });
  goesOn();
  await board.flush();
  const history = (await state.history.list("orders")).filter(({ run_id }) => run_id === runId);
  expect(history.map(({ component, status }) => `${component} ${Object.keys(status.status)[0]}`)).toEqual([
    "Connector start",
    "Source heartbeat",
    "Target retry",
    "Source heartbeat",
  ]);
});

const failures: readonly (readonly [ErrorCode, string])[] = [
  ["webhook_rejected", "Target"],
  ["kafka_rejected", "Target"],
  ["slot_missing", "Source"],
  ["source_authentication_failed", "Source"],
  ["encryption_key_mismatch", "Connector"],
];

test.each(failures)("a run that fails with %s fails in its %s", async (code, component) => {
  await using runtime = await RuntimeFixture.open();
  const { state, board, threads, log } = runtime;
  await runtime.connectors.createOrReplace("orders", { ...sampleRequest(), disabled: true }, null);
  const stored = { ...storedConnector("orders"), runId: Bun.randomUUIDv7() };
  const clock = { nowMs: Date.now, monotonicMs: () => performance.now(), random: () => 0 };
  const shared = { state, log, ...clock, sleep: async () => {} };
  const nobody = { onTaskWaiting: () => {}, onVerified: () => {}, onTaskFailed: () => {} };
  const tasks = new TaskDispatcher(stored.id, { ...shared, ...nobody, store: state.tasks, term: null });
  const ended = Promise.resolve(new MillraceError(code, "It is over."));
  const noCall = () => {};
  const loop = superviseRun(stored, null, tasks, {
    ...shared,
    board,
    threads,
    mayRun: () => true,
    startRun: () => ({ ended, offerTask: noCall, cancelTask: noCall, stop: noCall, cut: noCall }),
  });
  await loop.ended;
  await tasks.close();
  await board.flush();
  const failed = (await state.history.list("orders")).filter(({ status }) => status.status.failed);
  expect(failed).toMatchObject([{ component, run_id: stored.runId }]);
});
