// A transaction that the server streams before its commit. One that outgrows logical_decoding_work_mem comes in stream
// blocks; other transactions come whole between them. Its changes are kept apart until they are handed out.
// https://www.postgresql.org/docs/current/protocol-logical-replication.html (Stream Start, Stop, Commit, Abort)

import { BatchBuilder } from "../../../change/batch-builder.ts";
import type { InProgress, TupleForm } from "../../../change/change-batch.ts";
import { type Lsn, lsn } from "../../../change/lsn.ts";

export class TransactionInProgress {
  builder: BatchBuilder;
  /** Ordinal of its next change. */
  ordinal = 0;
  /** A part of it has been queued, to be handed out before its end. */
  hasParts = false;
  /** The reader has taken a part of it. */
  isTaken = false;

  /** `provisionalLsn`: a position before its commit; every transaction that ends before it was committed earlier. */
  constructor(
    readonly xid: number,
    readonly provisionalLsn: Lsn,
    form: TupleForm,
    timeUs: bigint,
  ) {
    this.builder = new BatchBuilder(form, provisionalLsn);
    this.builder.begin(provisionalLsn, timeUs, xid);
  }
}

/** How it ended. `commitLsn` is the commit record's LSN, `endLsn` the one behind it. */
export type TransactionEnd =
  | { readonly outcome: "committed"; readonly commitLsn: Lsn; readonly endLsn: Lsn; readonly timeUs: bigint }
  | { readonly outcome: "aborted" };

/** The xid in `bytes[at]`, a message S, c or A. */
export function readXid(bytes: Buffer, at: number): number {
  return bytes.readUInt32BE(at + 1);
}

/** Message `c`. `epochUs`: from 1970 to the server's epoch, in microseconds. */
export function readStreamCommit(bytes: Buffer, at: number, epochUs: bigint): TransactionEnd {
  return {
    outcome: "committed",
    commitLsn: lsn(bytes.readBigUInt64BE(at + 6)),
    endLsn: lsn(bytes.readBigUInt64BE(at + 14)),
    timeUs: bytes.readBigInt64BE(at + 22) + epochUs,
  };
}

/** Message `A`: whether the whole transaction was rolled back, and not a part of it to a savepoint. */
export function isWholeAbort(bytes: Buffer, at: number): boolean {
  return bytes.readUInt32BE(at + 1) === bytes.readUInt32BE(at + 5);
}

/** What a batch says of the transaction: its last part has `end`, the others have null. */
export function partOf({ xid }: TransactionInProgress, end: TransactionEnd | null): InProgress {
  if (end === null) return { xid, outcome: "open", commitLsn: null };
  return { xid, outcome: end.outcome, commitLsn: end.outcome === "committed" ? end.commitLsn : null };
}
