// The language between source and sink: many changes as bytes and offsets, one object per batch.
// A batch is plain data over transferable buffers, so it passes between threads without a copy.

import type { Position } from "./checkpoint.ts";
import { type Lsn, lsn } from "./lsn.ts";
import type { Relation } from "./relation.ts";

/**
 * The form of column values in tuples. `binary`: as the type's send function writes them. `text`: as its output
 * function prints them (UTF-8; DateStyle ISO, IntervalStyle postgres, TimeZone UTC, bytea hex).
 */
export type TupleForm = "binary" | "text";

/** The kinds of change. Numbers, because they are stored in a Uint8Array. */
export const ChangeKind = {
  insert: 1,
  update: 2,
  delete: 3,
  truncate: 4,
  /** A row of a snapshot. It has a new tuple only. */
  read: 5,
  /**
   * No row: from here on the table has the relation's shape. Only for sinks that asked for it; see `PreparedTables`.
   */
  shape: 6,
} as const;
export type ChangeKind = (typeof ChangeKind)[keyof typeof ChangeKind];

/** Bits of `flags`. */
export const ChangeFlag = {
  /**
   * The old tuple has only the replica identity's columns; the others are null in it. Without the flag it may be so too: see `isOldWhole`.
   */
  oldIsKey: 1,
  /** The new tuple has at least one column of length `UNCHANGED_LENGTH`. */
  hasUnchanged: 2,
  /** TRUNCATE … CASCADE. */
  cascade: 4,
  /** TRUNCATE … RESTART IDENTITY. */
  restartIdentity: 8,
} as const;

/** Length of a column in a tuple: the value is null. */
export const NULL_LENGTH = -1;
/** Length of a column in a tuple: a TOASTed value that the change did not touch, so the source did not send it. */
export const UNCHANGED_LENGTH = -2;

/**
 * Changes in stream order, stored by column: field `f` of change `i` is `f[i]`, valid for `i < count` (the arrays may
 * be longer).
 *
 * A **tuple** in `arena` has the layout of a COPY BINARY row: an int16 column count, then an int32 length and that many
 * bytes for each column, all big-endian. `NULL_LENGTH` and `UNCHANGED_LENGTH` have no bytes. In text form a large value
 * may be packed, which its length shows; see packed-hex.ts. Tuples of consecutive changes are adjacent, so a run of
 * inserts into one relation is a slice that COPY BINARY takes as it is.
 * https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-FILE-FORMATS
 *
 * A TRUNCATE of several tables becomes consecutive `truncate` changes that share the number in `newStart`.
 */
export interface ChangeBatch {
  readonly form: TupleForm;
  readonly count: number;
  /** The shapes that `relation` is an index into. */
  readonly relations: readonly Relation[];
  readonly arena: Uint8Array;

  readonly kind: Uint8Array;
  readonly flags: Uint8Array;
  readonly relation: Uint32Array;
  /** Index into the transaction arrays. */
  readonly transaction: Uint32Array;
  /** The change's position in its transaction, from 0. Changes of tables that are not selected count too. */
  readonly ordinal: Uint32Array;
  /** The old tuple is `arena[oldStart, oldEnd)`; empty when there is none. */
  readonly oldStart: Uint32Array;
  readonly oldEnd: Uint32Array;
  /**
   * The new tuple is `arena[newStart, newEnd)`; empty when there is none. For a `truncate`: the statement's number in
   * the batch.
   */
  readonly newStart: Uint32Array;
  readonly newEnd: Uint32Array;
  /**
   * Each change's own LSN, as a number; 0: not known. Only in text form, and only where the source has LSNs. Sinks show
   * it to people; the order of changes is that of commits.
   */
  readonly changeLsn?: Float64Array;

  readonly transactions: TransactionTable;
  /** The last transaction continues in the next batch. */
  readonly endsInTransaction: boolean;
  /**
   * The whole batch belongs to one transaction that the source had not committed when it sent this; see `InProgress`.
   */
  readonly inProgress?: InProgress | undefined;
  /**
   * The stream's position after this batch. Each transaction that ends in the batch, and each earlier one (also those
   * without a change for us), has its commit record before `resumeLsn`.
   */
  readonly resumeLsn: Lsn;
}

/** The transactions of a batch, stored by column; valid for index `< count`. */
export interface TransactionTable {
  readonly count: number;
  /** LSN of the commit record: the transaction's position in commit order. */
  readonly commitLsn: BigUint64Array;
  /** LSN behind the commit record. 0 while the transaction continues in the next batch. */
  readonly endLsn: BigUint64Array;
  /** Commit time in microseconds since 1970-01-01 UTC; 0: not known, as of a shape. */
  readonly commitTimeUs: BigInt64Array;
  readonly xid: Uint32Array;
}

/**
 * A part of a large transaction that the source streams before its commit. Batches of other transactions may come
 * between its parts; they commit earlier and change none of its rows. Its commit LSN in `transactions` is provisional:
 * before the true one, and after everything that committed earlier.
 */
export interface InProgress {
  readonly xid: number;
  /**
   * `committed`: this part completes the transaction, and `resumeLsn` is behind it. `aborted`: discard all of its
   * parts.
   */
  readonly outcome: "open" | "committed" | "aborted";
  /** LSN of its commit record; null before it is committed. */
  readonly commitLsn: Lsn | null;
}

/** Which batches a sink takes. */
export interface TakenBatches {
  /** Parts of transactions in progress may be among them. */
  readonly takesInProgress?: boolean | undefined;
  /** A batch ends with the transaction that brings it to so many tables. Absent: it may have any number. */
  readonly maxTables?: number | undefined;
}

/** The commit LSN of change `i`. */
export function commitLsnOf({ transaction, transactions }: ChangeBatch, i: number): Lsn {
  return lsn(transactions.commitLsn[transaction[i]!]!);
}

/** The position of change `i` in the stream. */
export function positionOf(batch: ChangeBatch, i: number): Position {
  return { commitLsn: commitLsnOf(batch, i), ordinal: batch.ordinal[i]! };
}

/** Bytes of the arena that the tuples of the first `count` changes occupy. Tuples are in the order of changes; a TRUNCATE and a shape have none. */
export function bytesOfTuples(batch: ChangeBatch, count = batch.count): number {
  const { oldStart, oldEnd, newStart, newEnd } = batch;
  for (let i = count - 1; i >= 0; i--) {
    if (newEnd[i]! > newStart[i]!) return newEnd[i]!;
    if (oldEnd[i]! > oldStart[i]!) return oldEnd[i]!;
  }
  return 0;
}
