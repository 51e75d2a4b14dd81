// A task in the words of the page, and what can be done to it. Pure.

import type { ReplayResult } from "../../../../src/connector/replay.ts";
import type { ConnectorStatus } from "../../../../src/connector/status.ts";
import type { ReplaySpec, Task, TaskState, VerifySpec } from "../../../../src/connector/task.ts";
import type { VerifyResult } from "../../../../src/connector/verification.ts";
import type { Tone } from "../../../connector/condition.ts";
import { plural } from "../../../text/numbers.ts";
import { ago } from "../../../text/times.ts";

const tones: Readonly<Record<TaskState, Tone>> = {
  Pending: "idle",
  Running: "busy",
  Done: "good",
  Failed: "bad",
  Cancelled: "idle",
};

export function taskTone({ state, reason }: Task): Tone {
  return state === "Pending" && reason !== undefined ? "warning" : tones[state];
}

/** What it waits for, or how often it has failed; null: nothing is to be said. */
export function taskNote(task: Task, status: ConnectorStatus, now: number): string | null {
  const { state, attempt, next_attempt_at: next } = task;
  const failed = attempt > 0 ? `${plural(attempt, "attempt")} failed` : null;
  if (state !== "Pending") return state === "Done" || state === "Cancelled" ? null : failed;
  const waits = next
    ? `next attempt ${Date.parse(next) > now ? ago(Date.parse(next), now) : "now"}`
    : waitsForConnector(status)
      ? "waits until the connector runs"
      : "waits for its turn";
  return failed ? `${failed}, ${waits}` : waits;
}

/** A connector that is stopped, disabled or failed carries out no task. */
export function waitsForConnector({ state, status }: ConnectorStatus): boolean {
  return (state.shutdown ?? state.disabled ?? status.failed) !== undefined;
}

export function taskNoun({ spec }: Task): string {
  if (spec.Replay) return "Replay";
  return spec.Verify ? "Comparison" : "Copy";
}

export function comparisonText({ repair, sample_percent: percent }: VerifySpec): string {
  const what = percent === undefined ? "compares with the source" : `compares ${percent} % with the source`;
  if (repair === "None") return what;
  return `${what}, ${repair === "Apply" ? "repairs what differs" : "shows how to repair"}`;
}

export function replayText({ keys }: ReplaySpec): string {
  return keys ? `sends ${plural(keys.length, "row")} again` : "sends the whole table again";
}

export function sentText({ rows, missing }: ReplayResult): string {
  const absent = missing.length > 0 ? `, ${plural(missing.length, "key")} without a row` : "";
  return `${plural(rows, "row")} sent${absent}`;
}

export function isEqual({ missing, extra, changed }: VerifyResult): boolean {
  return missing + extra + changed === 0;
}

export function foundText(result: VerifyResult): string {
  const { rows, missing, extra, changed, repaired } = result;
  if (isEqual(result)) return `${plural(rows, "row")} compared, all equal`;
  const kinds = `${missing} missing, ${extra} extra, ${changed} changed`;
  return `${plural(rows, "row")} compared: ${kinds}${repaired > 0 ? `, ${repaired} repaired` : ""}`;
}

export interface TaskAction {
  readonly action: "cancel" | "retry";
  readonly label: string;
}

export function taskActions({ state, spec, next_attempt_at: next }: Task): readonly TaskAction[] {
  if (state === "Failed") return [{ action: "retry", label: "Try again" }];
  const cancel = { action: "cancel", label: "Cancel" } as const;
  // A comparison leaves nothing half done.
  if (state === "Running" && spec.Verify) return [cancel];
  if (state !== "Pending") return [];
  return next ? [{ action: "retry", label: "Try now" }, cancel] : [cancel];
}

/** Newest first, as the service lists them. Task ids rise with time. */
export function withTask(tasks: readonly Task[], task: Task): readonly Task[] {
  const index = tasks.findIndex(({ id }) => id === task.id);
  if (index >= 0) return tasks.with(index, task);
  const after = tasks.findIndex(({ id }) => id < task.id);
  return after < 0 ? [...tasks, task] : tasks.toSpliced(after, 0, task);
}
