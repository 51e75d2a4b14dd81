// Where the stream stands after a change or a batch: the place part of a checkpoint. Pure.

import { type ChangeBatch, ChangeKind, positionOf } from "../../../change/change-batch.ts";
import type { Checkpoint } from "../../../change/checkpoint.ts";
import { type Lsn, lsn } from "../../../change/lsn.ts";

export type StreamPlace = Omit<Checkpoint, "lastVersion">;

/** Whether change `i` of `batch` is the last one of its transaction. */
export function isLastOfTransaction(batch: ChangeBatch, i: number): boolean {
  return i === batch.count - 1 ? !batch.endsInTransaction : batch.transaction[i + 1] !== batch.transaction[i];
}

/** Which change of `batch` is the first one of a transaction that begins in it and does not end in it. `before`: where the batch begins. */
export function beginningOfUnfinished({ partial }: StreamPlace, batch: ChangeBatch): number | null {
  if (!batch.endsInTransaction || batch.count === 0) return null;
  let first = batch.count - 1;
  while (first > 0 && batch.transaction[first - 1] === batch.transaction[first]) first--;
  return partial?.commitLsn === positionOf(batch, first).commitLsn ? null : first;
}

/** What change `i` takes in the arena. */
export function bytesOf({ kind, oldStart, oldEnd, newStart, newEnd }: ChangeBatch, i: number): number {
  if (kind[i] === ChangeKind.truncate) return 0;
  return oldEnd[i]! - oldStart[i]! + newEnd[i]! - newStart[i]!;
}

/** After change `i` of `batch`. `before`: some place before it. */
export function placeAfterChange(before: StreamPlace, batch: ChangeBatch, i: number): StreamPlace {
  if (i === batch.count - 1) return placeAfterBatch(before, batch);
  const transaction = batch.transaction[i]!;
  const partial = positionOf(batch, i);
  const endLsn = batch.transactions.endLsn[transaction]!;
  if (batch.transaction[i + 1] !== transaction && endLsn !== 0n) {
    return { resumeLsn: later(before.resumeLsn, endLsn), partial: null };
  }
  // Earlier transactions have their commit records before this one's.
  return { resumeLsn: later(before.resumeLsn, partial.commitLsn), partial };
}

/** After all of `batch`. */
export function placeAfterBatch(before: StreamPlace, batch: ChangeBatch): StreamPlace {
  const resumeLsn = later(before.resumeLsn, batch.resumeLsn);
  if (batch.endsInTransaction && batch.count > 0) {
    return { resumeLsn, partial: positionOf(batch, batch.count - 1) };
  }
  // A batch without changes may lie within a transaction that an earlier one began.
  const { partial } = before;
  return { resumeLsn, partial: partial && partial.commitLsn >= resumeLsn ? partial : null };
}

function later(a: Lsn, b: bigint): Lsn {
  return lsn(a > b ? a : b);
}
