// What becomes of a task and of its run, but for the copy itself.

import { expect, test } from "bun:test";
import { runSnapshotTask } from "../../../src/pipeline/copy/snapshot-task.ts";
import type { OfferedTask } from "../../../src/pipeline/run-reporter.ts";
import type { Sink } from "../../../src/sink/sink.ts";
import type { Source } from "../../../src/source/source.ts";

test("a run that is told to stop ends as stopped, whatever its task failed of meanwhile, and the task has no outcome", async () => {
  const stop = new AbortController();
  const outcomes: unknown[] = [];
  const task: OfferedTask = {
    spec: { database: "db", schema: "public", name: "gone", truncate: false, force_parallel: false },
    claim: async () => true,
    progress: () => {},
    done: () => outcomes.push("done"),
    failed: (error) => outcomes.push(error),
  };
  const stoppedMeanwhile = async () => {
    stop.abort(new Error("stopped"));
    return [];
  };
  const isNeverAsked = {} as Source & Sink;
  const run = runSnapshotTask(isNeverAsked, isNeverAsked, task, stoppedMeanwhile, stop.signal);
  expect(await run.catch((error: unknown) => error)).toBe(stop.signal.reason);
  expect(outcomes).toEqual([]);
});
