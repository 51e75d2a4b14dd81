// Cuts a batch at an LSN, so that a sink can be looked at exactly there. Pure.

import { bytesOfTuples, type ChangeBatch } from "./change-batch.ts";
import type { Lsn } from "./lsn.ts";

export interface CutBatch {
  /** The changes that were committed before the LSN; null: there are none. */
  readonly before: ChangeBatch | null;
  /** The others; null: there are none. */
  readonly after: ChangeBatch | null;
  /** Once `before` is written, everything that was committed before the LSN is, and nothing else. */
  readonly isReached: boolean;
}

/** Both parts have memory of their own. */
export function cutBatch(batch: ChangeBatch, at: Lsn): CutBatch {
  const { inProgress, transactions, endsInTransaction, resumeLsn } = batch;
  if (inProgress) {
    // A sink shows nothing of a transaction before its end.
    const isAfter =
      inProgress.outcome === "committed" && inProgress.commitLsn !== null && inProgress.commitLsn >= at;
    return isAfter
      ? { before: null, after: batch, isReached: true }
      : { before: batch, after: null, isReached: false };
  }
  const commits = transactions.commitLsn.subarray(0, transactions.count);
  const firstAfter = commits.findIndex((commitLsn) => commitLsn >= at);
  if (firstAfter < 0) return { before: batch, after: null, isReached: !endsInTransaction && resumeLsn >= at };
  const change = batch.transaction
    .subarray(0, batch.count)
    .findIndex((transaction) => transaction >= firstAfter);
  if (change === 0) return { before: null, after: batch, isReached: true };
  const before = {
    ...batch,
    count: change,
    transactions: { ...transactions, count: firstAfter },
    endsInTransaction: false,
    resumeLsn: at,
  };
  return { before, after: behind(batch, change, firstAfter), isReached: true };
}

/** The changes of `batch` from `change` on, which is the first one of `transaction`. */
function behind(batch: ChangeBatch, change: number, transaction: number): ChangeBatch {
  const { count, transactions, changeLsn } = batch;
  const shift = bytesOfTuples(batch, change);
  const moved = (starts: Uint32Array, ends: Uint32Array) =>
    starts.slice(change, count).map((start, i) => (ends[change + i]! > start ? start - shift : start));
  const movedEnds = (starts: Uint32Array, ends: Uint32Array) =>
    ends.slice(change, count).map((end, i) => (end > starts[change + i]! ? end - shift : end));
  const { oldStart, oldEnd, newStart, newEnd } = batch;
  return {
    ...batch,
    count: count - change,
    arena: batch.arena.slice(shift),
    kind: batch.kind.slice(change, count),
    flags: batch.flags.slice(change, count),
    relation: batch.relation.slice(change, count),
    transaction: batch.transaction.slice(change, count).map((each) => each - transaction),
    ordinal: batch.ordinal.slice(change, count),
    oldStart: moved(oldStart, oldEnd),
    oldEnd: movedEnds(oldStart, oldEnd),
    newStart: moved(newStart, newEnd),
    newEnd: movedEnds(newStart, newEnd),
    ...(changeLsn ? { changeLsn: changeLsn.slice(change, count) } : {}),
    transactions: {
      count: transactions.count - transaction,
      commitLsn: transactions.commitLsn.slice(transaction, transactions.count),
      endLsn: transactions.endLsn.slice(transaction, transactions.count),
      commitTimeUs: transactions.commitTimeUs.slice(transaction, transactions.count),
      xid: transactions.xid.slice(transaction, transactions.count),
    },
  };
}
