// The lines that show tasks to a user.

import { expect, test } from "bun:test";
import { loggedLine, watchedLines } from "../../../src/cli/text/task-lines.ts";
import type { Task } from "../../../src/connector/task.ts";

const spec = { database: "shop", schema: "public", name: "orders", truncate: false, force_parallel: false };
const pending: Task = {
  id: "1",
  state: "Pending",
  spec: { Snapshot: spec },
  attempt: 0,
  created_at: "2026-01-01T00:00:00.000Z",
};
const running = (rows: number, expected: number): Task => ({
  ...pending,
  state: "Running" as const,
  progress: { rows, bytes: rows * 1_500, estimated_rows: expected },
});

test("one line per task, with a bar of the copied part of the estimate", () => {
  const again: Task = {
    ...pending,
    spec: { Snapshot: { ...spec, name: "t" } },
    attempt: 2,
    reason: "no\nroom",
    next_attempt_at: "2026-01-01T00:01:00.000Z",
  };
  const tasks = [running(5_000, 20_000), again, { ...running(7, 3), state: "Done" as const }];
  expect(watchedLines(tasks, Number.POSITIVE_INFINITY)).toEqual([
    "public.orders  Running    [#####---------------]  25 %  5,000 rows, 7.5 MB",
    "public.t       Pending    [--------------------]   0 %    attempt 3 at 2026-01-01T00:01:00.000Z: no room",
    "public.orders  Done       [####################] 100 %  7 rows, 10.5 kB",
  ]);
  // A permanent failure at its first attempt.
  const failed: Task = { ...pending, state: "Failed", attempt: 1, reason: "It is gone." };
  expect(watchedLines([failed], Number.POSITIVE_INFINITY)[0]).toEndWith("attempt 1: It is gone.");
  expect(watchedLines([running(9, 3)], 60)).toEqual([
    "public.orders  Running    [###################-]  99 %  9 r…",
  ]);
  expect(watchedLines([running(0, 0)], 80)[0]).toEndWith("0 %  0 rows, 0 B");
});

test("a log shows each tenth and each state once", () => {
  const of = (task: Task, before?: Task) => loggedLine(task, before) !== null;
  expect(of(pending)).toBe(true);
  expect(of(pending, pending)).toBe(false);
  expect(of(running(1, 100), pending)).toBe(true);
  expect(of(running(9, 100), running(1, 100))).toBe(false);
  expect(of(running(10, 100), running(9, 100))).toBe(true);
  expect(of({ ...running(10, 100), reason: "no room" }, running(10, 100))).toBe(true);
});
