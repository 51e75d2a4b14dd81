// The language between source and sink: many changes as bytes and offsets, one object per batch.
// A batch is plain data over transferable buffers, so it passes between threads without a copy.

import type { Lsn } from "./lsn.ts";
import type { Relation } from "./relation.ts";

/**
 * How column values stand in the tuples: `binary` as the type's send function writes them, `text` as its
 * output function prints them (UTF-8; DateStyle ISO, IntervalStyle postgres, TimeZone UTC, bytea hex).
 */
export type TupleForm = "binary" | "text";

/** What a change is. Numbers, because they live in a Uint8Array. */
export const ChangeKind = {
  insert: 1,
  update: 2,
  delete: 3,
  truncate: 4,
  /** A row of a snapshot: it has a new tuple only. */
  read: 5,
  /** No row: the table has the relation's shape from here on. For sinks that asked for it; see `PreparedTables`. */
  shape: 6,
} as const;
export type ChangeKind = (typeof ChangeKind)[keyof typeof ChangeKind];

/** Bits of `flags`. */
export const ChangeFlag = {
  /** The old tuple holds only the replica identity's columns; the others are null in it. */
  oldIsKey: 1,
  /** The new tuple holds at least one column of length `UNCHANGED`. */
  hasUnchanged: 2,
  /** TRUNCATE … CASCADE. */
  cascade: 4,
  /** TRUNCATE … RESTART IDENTITY. */
  restartIdentity: 8,
} as const;

/** A column length in a tuple: the value is null. */
export const NULL_LENGTH = -1;
/** A column length in a tuple: a TOASTed value that the change did not touch, and that the source did not send. */
export const UNCHANGED_LENGTH = -2;

/**
 * Changes in the order of the stream. Column-wise: field `f` of change `i` is `f[i]`, valid for `i < count`
 * (the arrays may be longer).
 *
 * A **tuple** in `arena` is laid out as a row of COPY BINARY: int16 column count, then for each column int32
 * length and that many bytes; all big-endian. `NULL_LENGTH` and `UNCHANGED_LENGTH` have no bytes. In text form a large value may
 * be packed, which its length tells: see packed-hex.ts. Tuples of
 * consecutive changes lie one behind the other, so a run of inserts into one relation is a contiguous slice that
 * COPY BINARY takes as it is.
 * https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-FILE-FORMATS
 *
 * A TRUNCATE of several tables is as many consecutive `truncate` changes, which share the number in `newStart`.
 */
export interface ChangeBatch {
  readonly form: TupleForm;
  readonly count: number;
  /** Shapes that `relation` indexes into. */
  readonly relations: readonly Relation[];
  readonly arena: Uint8Array;

  readonly kind: Uint8Array;
  readonly flags: Uint8Array;
  readonly relation: Uint32Array;
  /** Index into the transaction arrays. */
  readonly transaction: Uint32Array;
  /** The change's place in its transaction, counted from 0, also over changes that a selection left out. */
  readonly ordinal: Uint32Array;
  /** Old tuple `arena[oldStart, oldEnd)`; empty when there is none. */
  readonly oldStart: Uint32Array;
  readonly oldEnd: Uint32Array;
  /** New tuple `arena[newStart, newEnd)`; empty when there is none. Of a `truncate`: the statement's number in the batch. */
  readonly newStart: Uint32Array;
  readonly newEnd: Uint32Array;
  /**
   * Where each change stands in the source's log, in bytes from the log's beginning; 0: not known. Of batches in text form, where the
   * source has such places. It tells changes apart for people; the order is that of commits.
   */
  readonly place?: Float64Array;

  readonly transactions: TransactionTable;
  /** The last transaction goes on in the next batch. */
  readonly endsInTransaction: boolean;
  /** All of the batch is of one transaction, which the source had not committed when it sent this; see `InProgress`. */
  readonly inProgress?: InProgress | undefined;
  /**
   * Where the stream stands behind this batch. Each transaction that ends in the batch, and each one before it
   * (also those that hold nothing for us), has its commit record before `resumeLsn`.
   */
  readonly resumeLsn: Lsn;
}

/** The transactions of a batch, column-wise; valid for index `< count`. */
export interface TransactionTable {
  readonly count: number;
  /** LSN of the commit record: the transaction's place in commit order. */
  readonly commitLsn: BigUint64Array;
  /** LSN behind the commit record. 0 while the transaction goes on in the next batch. */
  readonly endLsn: BigUint64Array;
  /** Commit time in microseconds since 1970-01-01 UTC. */
  readonly commitTimeUs: BigInt64Array;
  readonly xid: Uint32Array;
}

/**
 * A part of a large transaction that came before its end was known. Batches of others may come between its parts, and are committed
 * before it; what it changes, none of them does. Its commit LSN in `transactions` is a place before the true one, and after all that
 * was committed before.
 */
export interface InProgress {
  readonly xid: number;
  /** `committed`: with this part it is whole, and `resumeLsn` is behind it. `aborted`: none of it ever was. */
  readonly outcome: "open" | "committed" | "aborted";
  /** Of its commit record; null before it is committed. */
  readonly commitLsn: Lsn | null;
}

/** Bytes of the arena that the batch's tuples take. */
export function bytesOfTuples({ count, oldEnd, newEnd }: ChangeBatch): number {
  return count > 0 ? Math.max(oldEnd[count - 1]!, newEnd[count - 1]!) : 0;
}
