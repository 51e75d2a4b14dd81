// Where a sink stands in the source's stream of commits. The only thing that a restart believes.

import type { Lsn } from "./lsn.ts";

/**
 * A change's place: the LSN of its transaction's commit record and its ordinal among the changes of that
 * transaction, counted from 0 in the order of the stream. The same on every replay, unlike a change's own LSN.
 */
export interface Position {
  readonly commitLsn: Lsn;
  readonly ordinal: number;
}

/**
 * What a checkpoint's log begins with where nothing is streamed: then it names the database alone, where that can be told from
 * others, and its LSN tells about where the source was, and no more.
 */
export const noStream = "copies of ";

/** Whether both logs are those of copies of one database, in which tables keep their ids. */
export function areOfOneDatabase(log: string, other: string | undefined): boolean {
  return log === other && log.startsWith(noStream) && log !== noStream;
}

/**
 * Everything up to here is durable at the sink.
 *
 * - `resumeLsn`: each transaction whose commit record starts before it is done. It is what the source is
 *   asked to stream from, and the most that may be acknowledged to it.
 * - `partial`: set while a transaction is done only in part: the last change of it that is durable. Its
 *   commit record starts at or after `resumeLsn`.
 * - `lastVersion`: the last `_sm_version` given out, so that versions go on rising and repeat on replay.
 * - `log`: which log the LSNs are addresses in, as the source names it; absent where that is not known.
 */
export interface Checkpoint {
  readonly resumeLsn: Lsn;
  readonly partial: Position | null;
  readonly lastVersion: bigint;
  readonly log?: string;
}

/** Whether the change at `position` is already durable under `checkpoint`. */
export function isDone(checkpoint: Checkpoint, position: Position): boolean {
  if (position.commitLsn < checkpoint.resumeLsn) return true;
  const partial = checkpoint.partial;
  if (!partial) return false;
  if (position.commitLsn !== partial.commitLsn) return position.commitLsn < partial.commitLsn;
  return position.ordinal <= partial.ordinal;
}

/** The last ordinal of the transaction that is done under `checkpoint`; -1 for none, Infinity for all. */
export function doneThrough(checkpoint: Checkpoint, commitLsn: Lsn): number {
  if (commitLsn < checkpoint.resumeLsn) return Number.POSITIVE_INFINITY;
  const partial = checkpoint.partial;
  if (partial === null || commitLsn > partial.commitLsn) return -1;
  return commitLsn === partial.commitLsn ? partial.ordinal : Number.POSITIVE_INFINITY;
}
