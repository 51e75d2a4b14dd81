// A sink's position in the source's stream of commits: all that a restart relies on.

import { type Lsn, lsn } from "./lsn.ts";

/**
 * The position of a change: the LSN of its transaction's commit record, and its ordinal among the changes of that
 * transaction, from 0 in stream order. Unlike the change's own LSN it is the same on every replay.
 */
export interface Position {
  readonly commitLsn: Lsn;
  readonly ordinal: number;
}

/**
 * Prefix of a checkpoint's log where nothing is streamed. The log then identifies the database alone, where the source
 * can tell it from others, and the LSN is only a rough position.
 */
export const copiesLogPrefix = "copies of ";

/** Whether both logs name copies of the same database, in which tables keep their OIDs. */
export function areOfOneDatabase(log: string, other: string | undefined): boolean {
  return log === other && log.startsWith(copiesLogPrefix) && log !== copiesLogPrefix;
}

/**
 * Everything before it is durable at the sink.
 *
 * - `resumeLsn`: each transaction whose commit record starts before it is done. The source is asked to stream from here,
 *   and nothing beyond it may be acknowledged.
 * - `partial`: set while a transaction is done only in part: the last change of it that is durable. Its commit record
 *   starts at or after `resumeLsn`.
 * - `lastVersion`: the last `_sm_version` given out, so that versions keep rising and repeat on replay.
 * - `log`: the log that the LSNs are addresses in, as the source names it; absent where that is not known.
 * - `reached`: the sink may have changes beyond `resumeLsn` and `partial`. All of them were committed before this place. Absent: it has none, or
 *   commits all changes together with the checkpoint.
 */
export interface Checkpoint {
  readonly resumeLsn: Lsn;
  readonly partial: Position | null;
  readonly lastVersion: bigint;
  readonly log?: string;
  readonly reached?: Lsn;
}

/** All that the sink may have received was committed before this place. */
export function reachOf({ resumeLsn, partial, reached = resumeLsn }: Checkpoint): Lsn {
  return furthest([resumeLsn, reached, ...(partial ? [behind(partial)] : [])]);
}

/** A place behind the change's transaction, and before the next one. */
export function behind({ commitLsn }: Position): Lsn {
  return lsn(commitLsn + 1n);
}

/** The checkpoint of a sink that may have what was committed before these places. */
export function reachingTo<Place extends Checkpoint>(checkpoint: Place, places: Iterable<Lsn>): Place {
  const reached = furthest([checkpoint.resumeLsn, ...places]);
  return reached > checkpoint.resumeLsn ? { ...checkpoint, reached } : checkpoint;
}

function furthest(places: readonly [Lsn, ...Lsn[]]): Lsn {
  let last = places[0];
  for (const place of places) if (place > last) last = place;
  return last;
}

/** Whether the change at `position` is durable under `checkpoint`. */
export function isDone(checkpoint: Checkpoint, position: Position): boolean {
  if (position.commitLsn < checkpoint.resumeLsn) return true;
  const partial = checkpoint.partial;
  if (!partial) return false;
  if (position.commitLsn !== partial.commitLsn) return position.commitLsn < partial.commitLsn;
  return position.ordinal <= partial.ordinal;
}

/** Everything up to there is durable under `checkpoint`. Ordinal -1: all transactions before this one. */
export function donePosition({ resumeLsn, partial }: Pick<Checkpoint, "resumeLsn" | "partial">): Position {
  return partial ?? { commitLsn: resumeLsn, ordinal: -1 };
}

/** The last ordinal of the transaction that is durable under `checkpoint`; -1: none, Infinity: all. */
export function doneThrough(checkpoint: Checkpoint, commitLsn: Lsn): number {
  if (commitLsn < checkpoint.resumeLsn) return Number.POSITIVE_INFINITY;
  const partial = checkpoint.partial;
  if (partial === null || commitLsn > partial.commitLsn) return -1;
  return commitLsn === partial.commitLsn ? partial.ordinal : Number.POSITIVE_INFINITY;
}
