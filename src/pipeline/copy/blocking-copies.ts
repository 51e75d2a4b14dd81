// Copies tables while the stream waits, or without a stream. A table that cannot be read does not stop the others.

import { qualifiedName, type TableShape } from "../../change/relation.ts";
import { concurrently, itemsOf } from "../../concurrency/concurrently.ts";
import { neverAborted } from "../../concurrency/until-aborted.ts";
import type { IncompleteRows } from "../../sink/sink.ts";
import type { RunReporter } from "../run-reporter.ts";
import { UnreadableTables, unreadableReason } from "../unreadable-tables.ts";
import type { CopyEnvironment } from "./copy-environment.ts";
import type { CopyPoints } from "./copy-points.ts";
import { copyChunks, copyRows, finishCopy, ReadFailure, startCopy, tellersOf } from "./copy-table.ts";
import type { BegunCopy } from "./incremental-copies.ts";

export interface BlockingCopies {
  readonly environment: CopyEnvironment;
  readonly reporter: Pick<RunReporter, "phase">;
  readonly unreadable: UnreadableTables;
  /** Finish the current chunks and begin no others. */
  readonly stop: AbortSignal;
  /** Copy the tables one after the other, in the given order: later ones refer to earlier ones. */
  readonly isOrdered: boolean;
}

/** Returns when each copy is made or its table is unreadable, or when stopped. Any other failure stops the others too. */
export async function makeBlockingCopies(
  of: BlockingCopies,
  copies: readonly BegunCopy[],
  points: CopyPoints,
): Promise<void> {
  const { environment, isOrdered, stop } = of;
  for (const { table } of copies) environment.states.expects(table);
  // The largest table first: it takes the longest.
  const inOrder = isOrdered
    ? copies
    : copies.toSorted((a, b) => b.table.estimatedBytes - a.table.estimatedBytes);
  const kept: TableShape[] = [];
  await concurrently(environment.parallel, itemsOf(inOrder, stop), async (begun) => {
    if (await copyOne(of, begun, points)) kept.unshift(begun.table);
  });
  for (const table of kept) {
    if (stop.aborted) return;
    await using copy = await environment.sink.copies.begin(table, "replace", "waits", neverAborted);
    await copyOne(of, { table, copy }, points);
  }
}

/** Returns whether the table is to be copied again behind those that refer to it. */
async function copyOne(of: BlockingCopies, { table, copy }: BegunCopy, points: CopyPoints): Promise<boolean> {
  const { environment, reporter, unreadable, stop, isOrdered } = of;
  const { states } = environment;
  const name = qualifiedName(table.relation);
  reporter.phase({ name: "snapshot", table: name }, { kind: "start" });
  states.began(table);
  const copied = await unlessUnreadable(of, table, async () => {
    const toCopy = { table, copy, signal: neverAborted, ...tellersOf(states, table) };
    const started = await startCopy(environment, toCopy, isOrdered);
    if (!(await copyChunks(environment, started, points, stop))) return null;
    // The sink may use a session for it.
    return await environment.permits.within(neverAborted, () => finishCopy(environment, started));
  });
  if (copied === null) return false;
  if (copied === "kept") return true;
  environment.source.copied(table);
  states.copied(table);
  unreadable.copied(table);
  reporter.phase({ name: "snapshot", table: name }, { kind: "complete" });
  return false;
}

/** Copies rows by key that the sink lacks though it has a copy of their table. */
export async function copyIncomplete(
  of: BlockingCopies,
  { table, keys }: IncompleteRows,
  points: CopyPoints,
): Promise<void> {
  const copied = await unlessUnreadable(of, table, async () => {
    await points.use((point) => copyRows(of.environment, { table, keys, signal: neverAborted }, point));
    return true;
  });
  if (copied) of.unreadable.copied(table);
}

/** Returns what `work` returns; null if the table is unreadable. Throws errors that are not of this table alone. */
async function unlessUnreadable<T>(
  { environment, reporter, unreadable }: BlockingCopies,
  table: TableShape,
  work: () => Promise<T>,
): Promise<T | null> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ReadFailure && UnreadableTables.isOfOneTable(error))) throw error;
    const name = qualifiedName(table.relation);
    environment.states.gaveUp(table, unreadableReason(error));
    unreadable.failed(table, error);
    reporter.phase({ name: "snapshot", table: name }, { kind: "warning", reason: error.message });
    return null;
  }
}
