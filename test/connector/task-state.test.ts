import { describe, expect, test } from "bun:test";
import { Check } from "@sinclair/typebox/value";
import { completeTaskSpec } from "../../src/connector/request/complete-task-spec.ts";
import { type Task, TaskSchema, type TaskState } from "../../src/connector/task.ts";
import {
  cancelTask,
  claimTask,
  failTask,
  finishTask,
  isEligible,
  isSameSpec,
  newTask,
  recoverTask,
  retryTask,
  taskBackoffMs,
} from "../../src/connector/task-state.ts";
import { configSample } from "./samples.ts";

const nowMs = Date.parse("2026-01-01T00:00:00.000Z");
const spec = completeTaskSpec({ Snapshot: { schema: "public", name: "orders" } }, configSample());
const pending = newTask("t1", spec, nowMs);
const running = claimTask(pending);
const failure = { reason: "The table is locked.", retryable: true, nowMs, random: 0.5 };

const inState: Record<TaskState, Task> = {
  Pending: pending,
  Running: running,
  Done: finishTask(running),
  Failed: failTask(running, { ...failure, retryable: false }),
  Cancelled: cancelTask(pending),
};

test("the connector provides defaults", () => {
  expect(spec).toEqual({
    Snapshot: { database: "shop", schema: "public", name: "orders", truncate: false, force_parallel: false },
  });
  expect(pending).toEqual({
    id: "t1",
    state: "Pending",
    spec,
    created_at: "2026-01-01T00:00:00.000Z",
    attempt: 0,
  });
});

test("specs are equal if every field is, in any order of keys", () => {
  const reordered = {
    Snapshot: { force_parallel: false, truncate: false, name: "orders", schema: "public", database: "shop" },
  };
  expect(isSameSpec(spec, reordered)).toBe(true);
  expect(isSameSpec(spec, { Snapshot: { ...reordered.Snapshot, truncate: true } })).toBe(false);
});

describe("transitions", () => {
  const moves = {
    claim: claimTask,
    finish: finishTask,
    fail: (task: Task) => failTask(task, failure),
    cancel: cancelTask,
    retry: retryTask,
    recover: recoverTask,
  };
  const results: Record<keyof typeof moves, Record<TaskState, TaskState | "conflict">> = {
    claim: {
      Pending: "Running",
      Running: "conflict",
      Done: "conflict",
      Failed: "conflict",
      Cancelled: "conflict",
    },
    finish: {
      Pending: "conflict",
      Running: "Done",
      Done: "conflict",
      Failed: "conflict",
      Cancelled: "conflict",
    },
    fail: {
      Pending: "conflict",
      Running: "Pending",
      Done: "conflict",
      Failed: "conflict",
      Cancelled: "conflict",
    },
    cancel: {
      Pending: "Cancelled",
      Running: "conflict",
      Done: "conflict",
      Failed: "conflict",
      Cancelled: "Cancelled",
    },
    retry: {
      Pending: "Pending",
      Running: "conflict",
      Done: "conflict",
      Failed: "Pending",
      Cancelled: "conflict",
    },
    recover: {
      Pending: "Pending",
      Running: "Pending",
      Done: "Done",
      Failed: "Failed",
      Cancelled: "Cancelled",
    },
  };

  for (const [name, move] of Object.entries(moves) as [keyof typeof moves, (task: Task) => Task][]) {
    for (const state of Object.keys(inState) as TaskState[]) {
      const expected = results[name][state];
      test(`${name} ${state}: ${expected}`, () => {
        if (expected === "conflict")
          return expect(() => move(inState[state])).toThrow(`The task is ${state}`);
        const moved = move(inState[state]);
        expect(moved.state).toBe(expected);
        expect(Check(TaskSchema, moved)).toBe(true);
      });
    }
  }
});

describe("failures", () => {
  test("increase the wait each time, and are final at the fifth", () => {
    let task = running;
    for (let attempt = 1; attempt <= 4; attempt++) {
      task = failTask(task, failure);
      expect(task).toMatchObject({ state: "Pending", attempt, reason: failure.reason });
      const waitMs = Date.parse(task.next_attempt_at ?? "") - nowMs;
      expect(waitMs).toBe(taskBackoffMs(attempt, 0.5));
      expect(isEligible(task, nowMs + waitMs - 1)).toBe(false);
      expect(isEligible(task, nowMs + waitMs)).toBe(true);
      task = claimTask(task);
      expect(task).not.toHaveProperty("next_attempt_at");
    }
    const failed = failTask(task, failure);
    expect(failed).toMatchObject({ state: "Failed", attempt: 5 });
    expect(failed).not.toHaveProperty("next_attempt_at");
  });

  test("success clears the reason", () => {
    const done = finishTask(claimTask(failTask(running, failure)));
    expect(done).not.toHaveProperty("reason");
    expect(done.attempt).toBe(1);
  });

  test("retry makes a waiting task due now, and resets a failed one's attempts", () => {
    const waiting = failTask(running, failure);
    expect(isEligible(waiting, nowMs)).toBe(false);
    expect(isEligible(retryTask(waiting), nowMs)).toBe(true);
    expect(retryTask(waiting).attempt).toBe(1);
    expect(retryTask(inState.Failed)).toMatchObject({ state: "Pending", attempt: 0 });
  });

  test("the wait is at least half of the doubled one, and bounded", () => {
    expect(taskBackoffMs(1, 0)).toBe(2_500);
    expect(taskBackoffMs(1, 1)).toBe(5_000);
    expect(taskBackoffMs(3, 0)).toBe(10_000);
    expect(taskBackoffMs(60, 1)).toBe(300_000);
  });
});
