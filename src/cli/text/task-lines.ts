// Formats tasks as lines of text, for a list and for watching. Pure.

import type { ReplayResult } from "../../connector/replay.ts";
import { replayResultOf, type Task, verifyResultOf } from "../../connector/task.ts";
import type { VerifyResult } from "../../connector/verification.ts";
import { cut, oneLine, padTo, textTable } from "./text-table.ts";

const barWidth = 20;
const units = ["B", "kB", "MB", "GB", "TB"] as const;

export function isOver({ state }: Task): boolean {
  return state === "Done" || state === "Failed" || state === "Cancelled";
}

export function taskTable(tasks: readonly Task[], width: number): string {
  const rows = tasks.map((task) => [
    task.id,
    task.state,
    tableOf(task),
    task.progress ? task.progress.rows.toLocaleString("en-US") : "",
    task.created_at,
    why(task),
  ]);
  return textTable(["ID", "STATE", "TABLE", "ROWS", "CREATED", "REASON"], rows, width);
}

/** One line for each task. */
export function watchedLines(tasks: readonly Task[], width: number): readonly string[] {
  const names = Math.max(0, ...tasks.map((task) => Bun.stringWidth(oneLine(tableOf(task)))));
  return tasks.map((task) => {
    const parts = [
      padTo(oneLine(tableOf(task)), names),
      task.state.padEnd(9),
      bar(task),
      counted(task),
      oneLine(why(task)),
    ];
    return cut(parts.join("  ").trimEnd(), width);
  });
}

/** A line for a log, if something has changed since `before` that is worth a line; null: nothing has. */
export function loggedLine(task: Task, before: Task | undefined): string | null {
  const step = (of: Task) => Math.floor(share(of) * 10);
  const isSame =
    before && before.state === task.state && step(before) === step(task) && why(before) === why(task);
  return isSame ? null : (watchedLines([task], Number.POSITIVE_INFINITY)[0] ?? null);
}

/** The expected number of rows is the source's estimate. */
function share(task: Task): number {
  if (task.state === "Done") return 1;
  const { rows = 0, estimated_rows: expected = 0 } = task.progress ?? {};
  return expected > 0 ? Math.min(0.99, rows / expected) : 0;
}

function bar(task: Task): string {
  const done = Math.floor(share(task) * barWidth);
  const percent = `${Math.floor(share(task) * 100)} %`.padStart(5);
  return `[${"#".repeat(done)}${"-".repeat(barWidth - done)}] ${percent}`;
}

function counted({ progress, spec }: Task): string {
  if (!progress) return "";
  const rows = `${progress.rows.toLocaleString("en-US")} rows`;
  return spec.Verify ? rows : `${rows}, ${bytesText(progress.bytes)}`;
}

function bytesText(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1000 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}

/** `attempt` counts failed attempts. */
function why(task: Task): string {
  const { state, attempt, reason, next_attempt_at: next } = task;
  const isOver = state === "Failed" || state === "Cancelled" || state === "Done";
  const tries = attempt > 0 ? `attempt ${isOver ? attempt : attempt + 1}${next ? ` at ${next}` : ""}` : "";
  return [tries, resultText(task) ?? reason].filter(Boolean).join(": ");
}

function tableOf({ spec }: Task): string {
  const table = spec.Snapshot ?? spec.Verify ?? spec.Replay;
  return table ? `${table.schema}.${table.name}` : "";
}

function resultText(task: Task): string | null {
  const found = verifyResultOf(task);
  const sent = replayResultOf(task);
  if (found) return foundText(found);
  return sent && sentText(sent);
}

/** What a replay has sent, in one sentence. Pure. */
export function sentText({ rows, missing }: ReplayResult): string {
  const count = (number: number) => number.toLocaleString("en-US");
  const absent = missing.length > 0 ? `, ${count(missing.length)} not at the source` : "";
  return `${count(rows)} ${rows === 1 ? "row" : "rows"} sent again${absent}`;
}

/** What a verification has found, in one sentence. Pure. */
export function foundText({ rows, missing, extra, changed, repaired }: VerifyResult): string {
  const count = (number: number) => number.toLocaleString("en-US");
  const differing = missing + extra + changed;
  if (differing === 0) return `${count(rows)} rows are equal`;
  const kinds = `${count(missing)} missing, ${count(extra)} extra, ${count(changed)} changed`;
  return `${count(differing)} rows differ of ${count(rows)}: ${kinds}${repaired > 0 ? `; ${count(repaired)} repaired` : ""}`;
}
