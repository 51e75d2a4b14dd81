// The history of a connector as runs, newest first. Pure.

import type { HistoryEntry } from "../../../../src/connector/status.ts";
import type { Tone } from "../../../connector/condition.ts";
import { runBegan } from "../../../connector/run-id.ts";
import { healthWords } from "../../../connector/status-words.ts";

export interface Run {
  readonly id: string;
  /** Unix milliseconds. */
  readonly beganAt: number;
  /** Of what happened last. */
  readonly tone: Tone;
  readonly word: string;
  /** Newest first. */
  readonly entries: readonly HistoryEntry[];
}

/** `history`: oldest first. What a run reports late stands with that run. */
export function runsOf(history: readonly HistoryEntry[]): readonly Run[] {
  const byRun = Map.groupBy(history, ({ run_id }) => run_id);
  return [...byRun]
    .map(([id, entries]) => runOf(id, entries))
    .sort((a, b) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0));
}

function runOf(id: string, entries: readonly HistoryEntry[]): Run {
  const last = entries.at(-1);
  const { tone, word } = last ? healthWords(last.status) : { tone: "idle" as const, word: "" };
  const beganAt = runBegan(id) ?? Date.parse(entries[0]?.created_at ?? "");
  return { id, beganAt, tone, word, entries: entries.toReversed() };
}

/**
 * One entry; copies that followed each other without anything to be said; or what was reported while the same failure was met again and again.
 * Newest first.
 */
export type Step =
  | { readonly kind: "entry"; readonly entry: HistoryEntry }
  | { readonly kind: "copies" | "retries"; readonly entries: readonly HistoryEntry[] };

/** So few stay as they are. */
const few = { copies: 3, retries: 1 } as const;

interface Group {
  readonly kind: "copies" | "retries" | null;
  readonly reason: string | null;
  readonly entries: HistoryEntry[];
}

/** A connector may copy thousands of tables, one after the other, or meet the same failure for days: these are one step. */
export function stepsOf(entries: readonly HistoryEntry[]): readonly Step[] {
  const groups: Group[] = [];
  for (const entry of entries) {
    const group = groupOf(entry);
    const last = groups.at(-1);
    if (last && group.kind !== null && last.kind === group.kind && last.reason === group.reason)
      last.entries.push(entry);
    else groups.push(group);
  }
  return groups.flatMap(({ kind, entries: those }): Step[] =>
    kind !== null && those.length > few[kind]
      ? [{ kind, entries: those }]
      : those.map((entry) => ({ kind: "entry", entry })),
  );
}

/** Of a retry the reason counts alone: each attempt has another number, and goes through the phases again. */
function groupOf(entry: HistoryEntry): Group {
  const { state, status } = entry.status;
  if (status.retry) return { kind: "retries", reason: status.retry.reason, entries: [entry] };
  const isQuietCopy = state.snapshot !== undefined && healthWords(entry.status).reason === null;
  return { kind: isQuietCopy ? "copies" : null, reason: null, entries: [entry] };
}

/** "attempt 3", "attempts 1 to 6" */
export function attemptsText(entries: readonly HistoryEntry[]): string {
  const attempts = entries.flatMap(({ status }) => status.status.retry?.attempt ?? []);
  const [first, last] = [Math.min(...attempts), Math.max(...attempts)];
  return first === last ? `attempt ${last}` : `attempts ${first} to ${last}`;
}
