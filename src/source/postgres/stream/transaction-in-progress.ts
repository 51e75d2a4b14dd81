// A transaction that the server sends while it is in progress: one that outgrows logical_decoding_work_mem comes in blocks, between
// which others come whole. Its changes are kept apart until they are handed out.
// https://www.postgresql.org/docs/current/protocol-logical-replication.html (Stream Start, Stop, Commit, Abort)

import { BatchBuilder } from "../../../change/batch-builder.ts";
import type { InProgress, TupleForm } from "../../../change/change-batch.ts";
import { type Lsn, lsn } from "../../../change/lsn.ts";

export class TransactionInProgress {
  builder: BatchBuilder;
  /** Of its next change. */
  ordinal = 0;
  /** A part of it has been closed, to be handed out before its end. */
  hasParts = false;
  /** The reader has taken one. */
  isTaken = false;

  /** `since`: all that ends before it was committed before the transaction is. */
  constructor(
    readonly xid: number,
    readonly since: Lsn,
    form: TupleForm,
    timeUs: bigint,
  ) {
    this.builder = new BatchBuilder(form, since);
    this.builder.begin(since, timeUs, xid);
  }
}

/** How it ended. `committed` has the place of its commit record, and what is behind that. */
export type TransactionEnd =
  | { readonly outcome: "committed"; readonly commitLsn: Lsn; readonly endLsn: Lsn; readonly timeUs: bigint }
  | { readonly outcome: "aborted" };

/** The transaction that `bytes[at]`, a message S, c or A, is about. */
export function readXid(bytes: Buffer, at: number): number {
  return bytes.readUInt32BE(at + 1);
}

/** Message `c`. `epochUs`: from 1970 to the server's epoch. */
export function readStreamCommit(bytes: Buffer, at: number, epochUs: bigint): TransactionEnd {
  return {
    outcome: "committed",
    commitLsn: lsn(bytes.readBigUInt64BE(at + 6)),
    endLsn: lsn(bytes.readBigUInt64BE(at + 14)),
    timeUs: bytes.readBigInt64BE(at + 22) + epochUs,
  };
}

/** Message `A`: whether the whole transaction is gone, or only a part of it, back to a savepoint. */
export function isWholeAbort(bytes: Buffer, at: number): boolean {
  return bytes.readUInt32BE(at + 1) === bytes.readUInt32BE(at + 5);
}

/** What the last part says of it; without an end, what another part says. */
export function partOf({ xid }: TransactionInProgress, end: TransactionEnd | null): InProgress {
  if (end === null) return { xid, outcome: "open", commitLsn: null };
  return { xid, outcome: end.outcome, commitLsn: end.outcome === "committed" ? end.commitLsn : null };
}
