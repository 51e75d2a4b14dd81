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

/** One entry, or copies that followed each other without anything to be said. */
export type Step =
  | { readonly kind: "entry"; readonly entry: HistoryEntry }
  | { readonly kind: "copies"; readonly entries: readonly HistoryEntry[] };

/** So few stay as they are. */
const fewCopies = 3;

/** A connector may copy thousands of tables, one after the other: they are one step. */
export function stepsOf(entries: readonly HistoryEntry[]): readonly Step[] {
  const groups: HistoryEntry[][] = [];
  for (const entry of entries) {
    const last = groups.at(-1);
    if (last?.[0] && isQuietCopy(last[0]) && isQuietCopy(entry)) last.push(entry);
    else groups.push([entry]);
  }
  return groups.flatMap((group): Step[] =>
    group.length > fewCopies
      ? [{ kind: "copies", entries: group }]
      : group.map((entry) => ({ kind: "entry", entry })),
  );
}

function isQuietCopy({ status }: HistoryEntry): boolean {
  return status.state.snapshot !== undefined && healthWords(status).reason === null;
}
