// The states of a task and the transitions between them, as pure functions from one record to the next. The caller
// stores the record so that transitions do not race.
//
//   Pending → Running → Done          claimTask, finishTask
//   Running → Pending | Failed        failTask: with or without another attempt
//   Running → Pending                 recoverTask: the service was restarted
//   Pending → Cancelled               cancelTask; of a comparison also Running → Cancelled
//   Pending, Failed → Pending         retryTask

import { MillraceError } from "../errors/millrace-error.ts";
import type { Task, TaskResult, TaskSpec } from "./task.ts";

/** After so many attempts a task fails permanently. */
const maxTaskAttempts = 5;

const initialBackoffMs = 5_000;
const maxBackoffMs = 300_000;
/** How long the results of a task's attempt are kept for the next one: longer than any task waits for it. */
export const keptForTaskMs = 3 * maxBackoffMs;

/** Two specs are the same when all fields are equal. */
export function isSameSpec(a: TaskSpec, b: TaskSpec): boolean {
  return specKey(a) === specKey(b);
}

/** A canonical text of the spec, for a unique index: equal for equal specs only. */
export function specKey(spec: TaskSpec): string {
  const { Snapshot: s, Verify: v, Replay: r } = spec;
  // A thousand keys are more than an entry of an index can hold.
  const keys = r?.keys && Bun.SHA256.hash(JSON.stringify(r.keys), "hex");
  if (r) return JSON.stringify(["Replay", r.database, r.schema, r.name, keys ?? null]);
  if (v) return JSON.stringify(["Verify", v.database, v.schema, v.name, v.repair, v.sample_percent ?? 100]);
  return JSON.stringify(s ? ["Snapshot", s.database, s.schema, s.name, s.truncate, s.force_parallel] : []);
}

export function newTask(id: string, spec: TaskSpec, nowMs: number): Task {
  return { id, state: "Pending", spec, created_at: new Date(nowMs).toISOString(), attempt: 0 };
}

/** While a task is in one of these states, an identical task is not created. */
export const unfinishedStates: readonly Task["state"][] = ["Pending", "Running"];

/** Whether a pending task may run now. */
export function isEligible(task: Task, nowMs: number): boolean {
  if (task.state !== "Pending") return false;
  return task.next_attempt_at === undefined || Date.parse(task.next_attempt_at) <= nowMs;
}

/** Pending → Running. Throws `conflict` in any other state. */
export function claimTask(task: Task): Task {
  if (task.state !== "Pending") throw refused(task, "begin");
  const { next_attempt_at: _, ...rest } = task;
  return { ...rest, state: "Running" };
}

/** Running → Done. `result`: of a verification or a replay. Throws `conflict` in any other state. */
export function finishTask(task: Task, result: TaskResult | null = null): Task {
  if (task.state !== "Running") throw refused(task, "finish");
  const { reason: _, next_attempt_at: __, ...rest } = task;
  return { ...rest, state: "Done", ...(result ? { result } : {}) };
}

export interface TaskFailure {
  /** What went wrong and what to do about it. Clients see it. */
  readonly reason: string;
  /** Whether another attempt may help. */
  readonly retryable: boolean;
  readonly nowMs: number;
  /** In [0, 1). */
  readonly random: number;
}

/** Running → Pending with a time for the next attempt, or → Failed. Throws `conflict` in any other state. */
export function failTask(task: Task, failure: TaskFailure): Task {
  if (task.state !== "Running") throw refused(task, "fail");
  const { next_attempt_at: _, ...rest } = task;
  const failed = { ...rest, attempt: task.attempt + 1, reason: failure.reason };
  if (!failure.retryable || failed.attempt >= maxTaskAttempts) return { ...failed, state: "Failed" };
  const nextMs = failure.nowMs + taskBackoffMs(failed.attempt, failure.random);
  return { ...failed, state: "Pending", next_attempt_at: new Date(nextMs).toISOString() };
}

/** The delay after so many failed attempts: doubled each time, half of it random. */
export function taskBackoffMs(failedAttempts: number, random: number): number {
  const full = Math.min(maxBackoffMs, initialBackoffMs * 2 ** (failedAttempts - 1));
  return Math.round(full / 2 + (random * full) / 2);
}

/** Running → Pending when an attempt was interrupted rather than failed. Other states stay. */
export function recoverTask(task: Task): Task {
  return task.state === "Running" ? { ...task, state: "Pending" } : task;
}

/**
 * Pending → Cancelled, and Running → Cancelled where the task is a comparison: it leaves nothing half done. A cancelled task stays as it is.
 * Throws `conflict` in any other state.
 */
export function cancelTask(task: Task): Task {
  if (task.state === "Cancelled") return task;
  if (!isCancellable(task)) throw refused(task, "be cancelled");
  const { next_attempt_at: _, ...rest } = task;
  return { ...rest, state: "Cancelled" };
}

function isCancellable({ state, spec }: Pick<Task, "state" | "spec">): boolean {
  return state === "Pending" || (state === "Running" && spec.Verify !== undefined);
}

/**
 * A pending task becomes eligible now; a failed one becomes pending again, with all attempts. Throws `conflict` in any
 * other state.
 */
export function retryTask(task: Task): Task {
  const { next_attempt_at: _, ...rest } = task;
  if (task.state === "Pending") return rest;
  if (task.state !== "Failed") throw refused(task, "be retried");
  return { ...rest, state: "Pending", attempt: 0 };
}

function refused(task: Task, verb: string): MillraceError {
  return new MillraceError("conflict", `The task is ${task.state}, so it cannot ${verb}.`);
}
