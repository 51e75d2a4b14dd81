// What is told to people of a run whose attempts each work for a while and fail, by a simulated clock.

import { expect, test } from "bun:test";
import type { Alert } from "../../src/alerts/alert.ts";
import { AlertWatch } from "../../src/alerts/alert-watch.ts";
import type { Status } from "../../src/connector/status.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import type { RunAttempt } from "../../src/runtime/run/connector-run.ts";
import type { RunLoop } from "../../src/runtime/run/run-loop.ts";
import { superviseRun } from "../../src/runtime/supervised-run.ts";
import { TaskDispatcher } from "../../src/runtime/task-dispatcher.ts";
import { storedConnector } from "../support/api/sample-connector.ts";
import { RuntimeFixture } from "../support/runtime/runtime-fixture.ts";

const minute = 60_000;
const steps: readonly Status[] = [
  { state: { initialize: { sub_state: "connect", commands: [] } }, status: { start: {} } },
  { state: { realtime: { name: "slot" } }, status: { start: {} } },
];

test("a run that streams for a minute and fails, again and again, makes an alert within 15 minutes", async () => {
  await using runtime = await RuntimeFixture.open();
  const { state, board, threads, log } = runtime;
  let nowMs = 0;
  const alerts: (Alert & { readonly sentMs: number })[] = [];
  const watch = new AlertWatch(
    (alert) => alerts.push({ ...alert, sentMs: nowMs }),
    () => nowMs,
  );
  board.addWatch(watch);
  const pass = (ms: number) => {
    for (const endMs = nowMs + ms; nowMs < endMs; watch.tick()) nowMs = Math.min(endMs, nowMs + 5_000);
  };
  const stored = storedConnector("orders");
  const shared = {
    state,
    log,
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    random: () => 0,
    sleep: async (ms: number) => pass(ms),
  };
  const nobody = { onTaskWaiting: () => {}, onVerified: () => {}, onTaskFailed: () => {} };
  const tasks = new TaskDispatcher(stored.id, { ...shared, ...nobody, store: state.tasks, term: null });
  const loop: RunLoop = superviseRun(stored, null, tasks, {
    ...shared,
    board,
    threads,
    mayRun: () => true,
    attemptFailed: (id) => watch.attemptFailed(id),
    startRun: (_request, events): RunAttempt => {
      const ended = (async () => {
        for (const status of steps) events.status("Source", status);
        pass(minute);
        if (nowMs > 60 * minute) loop.stop();
        return new MillraceError("source_connection_lost", "The network has cut the session.");
      })();
      return { ended, offerTask: () => {}, cancelTask: () => {}, stop: () => {}, cut: () => {} };
    },
  });
  await loop.ended;
  await tasks.close();
  expect(alerts.map(({ type }) => type)).toEqual(["connector.retrying"]);
  expect(alerts[0]?.sentMs).toBeLessThan(15 * minute);
});
