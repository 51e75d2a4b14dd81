// Decodes pgoutput messages into a batch. It is the hot loop of every stream: it copies each tuple once, from the
// socket's buffer into the arena, in the layout of COPY BINARY, and makes no object or string for a row.
// https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html

import type { BatchBuilder } from "../../../change/batch-builder.ts";
import { ChangeFlag, ChangeKind, type TupleForm } from "../../../change/change-batch.ts";
import { type Checkpoint, doneThrough } from "../../../change/checkpoint.ts";
import { type Lsn, lsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import { givenUp } from "../../../errors/given-up.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { RelationRegistry, RelationSlot } from "../shapes/relation-registry.ts";
import type { TupleTransformer } from "../shapes/row-transform.ts";
import { shapeMarkerPrefix } from "../shapes/shape-markers.ts";
import type { Operation } from "../shapes/system-columns.ts";
import { changeLsnAt } from "./copy-both-reader.ts";
import { readLogicalMessage, readRelationMessage, readTruncateMessage } from "./pgoutput-messages.ts";
import {
  isWholeAbort,
  readStreamCommit,
  readXid,
  type TransactionEnd,
  TransactionInProgress,
} from "./transaction-in-progress.ts";
import { TupleCopier } from "./tuple-copier.ts";

/** Microseconds from 1970-01-01 to 2000-01-01, the epoch of Postgres' timestamps. */
const postgresEpochUs = 946_684_800_000_000n;

const A = 0x41;
const B = 0x42;
const C = 0x43;
const c = 0x63;
const D = 0x44;
const E = 0x45;
const I = 0x49;
const K = 0x4b;
const M = 0x4d;
const N = 0x4e;
const O = 0x4f;
const R = 0x52;
const S = 0x53;
const T = 0x54;
const U = 0x55;

export class PgoutputDecoder {
  /** Collects transactions that are sent after their commit. */
  builder: BatchBuilder;
  /** The open transaction that is streamed before its commit. */
  inProgress: TransactionInProgress | null = null;
  /** Called when the transaction in progress has ended and is no longer `inProgress`. */
  onEnd: (transaction: TransactionInProgress, end: TransactionEnd) => void = () => {};
  /** Called when a transaction has ended in `builder`. */
  onCommit: () => void = () => {};
  /** What messages are added to: `builder`, or within a stream block that of the transaction in progress. */
  #active: BatchBuilder;
  /** Commit time of the last transaction that began, in microseconds since 1970. */
  lastCommitTimeUs: bigint | null = null;

  #commitLsn: Lsn;
  #xid = 0;
  #ordinal = 0;
  /** Ordinals up to this one are done under the checkpoint. */
  #skipThrough = -1;
  #statement = 0;
  #lastOid = -1;
  #lastSlot: RelationSlot | null = null;
  readonly #tuples: TupleCopier;

  constructor(
    builder: BatchBuilder,
    private readonly form: TupleForm,
    private readonly checkpoint: Checkpoint,
    private readonly registry: RelationRegistry,
    private readonly shapesAt: (marker: string, at: Lsn) => readonly Relation[],
  ) {
    this.builder = builder;
    this.#active = builder;
    this.#tuples = new TupleCopier(form);
    this.#commitLsn = checkpoint.resumeLsn;
  }

  /** Decodes the message `bytes[messageAt, end)`. The memory is reused: whatever is kept is copied here. */
  decode(bytes: Buffer, messageAt: number, end: number): void {
    // Within a stream block each message has the xid of its (sub)transaction behind its tag.
    const at = this.registry.isInBlock ? messageAt + 4 : messageAt;
    if (this.form === "text") this.#active.changeLsn = changeLsnAt(bytes, messageAt);
    switch (bytes[messageAt]) {
      case I:
        this.#insert(bytes, at, end);
        break;
      case U:
        this.#update(bytes, at, end);
        break;
      case D:
        this.#delete(bytes, at, end);
        break;
      case B:
        this.#begin(bytes, at);
        break;
      case C:
        this.builder.commit(lsn(bytes.readBigUInt64BE(at + 10)));
        this.onCommit();
        break;
      case R:
        this.#announce(bytes.subarray(at, end));
        break;
      case T:
        this.#truncate(bytes.subarray(at, end));
        break;
      case M:
        this.#message(bytes.subarray(at, end));
        break;
      case S:
        this.#beginBlock(readXid(bytes, messageAt));
        break;
      case E:
        this.#endBlock();
        break;
      case c:
        this.#end(readXid(bytes, messageAt), readStreamCommit(bytes, messageAt, postgresEpochUs));
        break;
      case A:
        this.#abort(bytes, messageAt);
        break;
      // Type and Origin messages carry no rows.
    }
  }

  /** The builder that the next message, large or not, is added to. */
  get activeBuilder(): BatchBuilder {
    return this.#active;
  }

  /** Replaces a builder from which a batch was taken. */
  continueWith(builder: BatchBuilder, transaction: TransactionInProgress | null = null): void {
    if (transaction) transaction.builder = builder;
    else this.builder = builder;
    if (this.registry.isInBlock === (transaction !== null)) this.#activate(builder);
  }

  #activate(builder: BatchBuilder): void {
    this.#active = builder;
    this.#lastOid = -1;
    this.registry.beginBatch(builder.relations);
  }

  #beginBlock(xid: number): void {
    const { resumeLsn } = this.builder;
    this.inProgress ??= new TransactionInProgress(xid, resumeLsn, this.form, this.lastCommitTimeUs ?? 0n);
    const transaction = this.inProgress;
    if (transaction.xid !== xid) throw givenUp("another is in progress as well");
    this.registry.isInBlock = true;
    this.#xid = xid;
    this.#commitLsn = transaction.provisionalLsn;
    this.#skipThrough = -1;
    this.#ordinal = transaction.ordinal;
    this.#activate(transaction.builder);
  }

  #endBlock(): void {
    if (this.inProgress) this.inProgress.ordinal = this.#ordinal;
    this.registry.isInBlock = false;
    this.#activate(this.builder);
  }

  #abort(bytes: Buffer, at: number): void {
    const xid = readXid(bytes, at);
    if (this.inProgress?.xid !== xid) return;
    if (!isWholeAbort(bytes, at)) throw givenUp("a part of it was rolled back");
    this.#end(xid, { outcome: "aborted" });
  }

  #end(xid: number, end: TransactionEnd): void {
    const transaction = this.inProgress;
    if (transaction?.xid !== xid) throw new MillraceError("protocol_violation", `${xid} was not begun`);
    this.inProgress = null;
    if (end.outcome === "committed") this.registry.reach(end.commitLsn, xid);
    this.registry.endInProgress(end.outcome === "committed" ? { at: end.commitLsn, xid } : null);
    if (end.outcome === "committed") {
      if (end.commitLsn < this.checkpoint.resumeLsn) throw givenUp("it is done already");
      this.lastCommitTimeUs = end.timeUs;
    }
    this.onEnd(transaction, end);
    this.#activate(this.builder);
    // Not earlier: what `onEnd` hands out first was committed before this transaction.
    if (end.outcome === "committed" && end.endLsn > this.builder.resumeLsn)
      this.builder.resumeLsn = end.endLsn;
  }

  #announce(message: Buffer): void {
    this.#lastOid = -1;
    this.registry.announce(readRelationMessage(message), this.#commitLsn, this.#xid);
  }

  #begin(bytes: Buffer, at: number): void {
    const commitLsn = bytes.readBigUInt64BE(at + 1) as Lsn;
    const commitTimeUs = bytes.readBigInt64BE(at + 9) + postgresEpochUs;
    this.#ordinal = 0;
    this.#commitLsn = commitLsn;
    this.#xid = bytes.readUInt32BE(at + 17);
    this.#skipThrough = doneThrough(this.checkpoint, commitLsn);
    this.lastCommitTimeUs = commitTimeUs;
    this.builder.begin(commitLsn, commitTimeUs, this.#xid);
    if (this.registry.reach(commitLsn, this.#xid)) this.#lastOid = -1;
  }

  /** The slot of a change's relation; null: the change is not for us. Counts the change's ordinal. */
  #slotOf(oid: number): RelationSlot | null {
    const ordinal = this.#ordinal++;
    if (ordinal <= this.#skipThrough) return null;
    if (oid === this.#lastOid) return this.#lastSlot;
    const slot = this.registry.find(oid);
    if (!slot) throw new MillraceError("protocol_violation", `pgoutput: relation ${oid} was not announced`);
    if (slot.transformer !== null && this.registry.isInBlock) throw givenUp("its rows are made of its place");
    if (slot.selected && slot.indexInBatch < 0) slot.indexInBatch = this.#active.addRelation(slot.relation);
    this.#lastOid = oid;
    this.#lastSlot = slot.selected ? slot : null;
    return this.#lastSlot;
  }

  #insert(bytes: Buffer, at: number, end: number): void {
    const slot = this.#slotOf(bytes.readUInt32BE(at + 1));
    if (slot === null) return;
    const builder = this.#active;
    const start = builder.arenaEnd;
    this.#tuples.copy(bytes, at + 6, end, slot.keep, builder);
    if (slot.transformer !== null) this.#transform(slot.transformer, start, -1, "insert");
    builder.add(ChangeKind.insert, 0, slot.indexInBatch, this.#ordinal - 1, 0, 0, start, builder.arenaEnd);
  }

  #update(bytes: Buffer, at: number, end: number): void {
    const slot = this.#slotOf(bytes.readUInt32BE(at + 1));
    if (slot === null) return;
    const builder = this.#active;
    const tag = bytes[at + 5]!;
    const oldStart = builder.arenaEnd;
    let flags = 0;
    let tupleAt = at + 6;
    if (tag !== N) {
      this.#tuples.copy(bytes, tupleAt, end, slot.keep, builder);
      if (slot.transformer !== null) this.#transform(slot.transformer, oldStart, -1, null);
      if (tag === K) flags |= ChangeFlag.oldIsKey;
      tupleAt = this.#tuples.readEnd + 1;
    }
    const newStart = builder.arenaEnd;
    this.#tuples.copy(bytes, tupleAt, end, slot.keep, builder);
    if (slot.transformer !== null) {
      this.#transform(slot.transformer, newStart, tag === O ? oldStart : -1, "update");
    }
    if (this.#tuples.sawUnchanged) flags |= ChangeFlag.hasUnchanged;
    builder.add(
      ChangeKind.update,
      flags,
      slot.indexInBatch,
      this.#ordinal - 1,
      oldStart,
      newStart,
      newStart,
      builder.arenaEnd,
    );
  }

  #delete(bytes: Buffer, at: number, end: number): void {
    const slot = this.#slotOf(bytes.readUInt32BE(at + 1));
    if (slot === null) return;
    const builder = this.#active;
    const start = builder.arenaEnd;
    // Read the tag first: the tuple may be written over its message.
    const flags = bytes[at + 5] === O ? 0 : ChangeFlag.oldIsKey;
    this.#tuples.copy(bytes, at + 6, end, slot.keep, builder);
    if (slot.transformer !== null) this.#transform(slot.transformer, start, -1, "delete");
    const ordinal = this.#ordinal - 1;
    builder.add(ChangeKind.delete, flags, slot.indexInBatch, ordinal, start, builder.arenaEnd, 0, 0);
  }

  #truncate(message: Buffer): void {
    // A transaction that stays open at the sink with a TRUNCATE in it would block its readers.
    if (this.registry.isInBlock) throw givenUp("it empties a table");
    const { options, oids } = readTruncateMessage(message);
    const flags =
      ((options & 1) !== 0 ? ChangeFlag.cascade : 0) | ((options & 2) !== 0 ? ChangeFlag.restartIdentity : 0);
    const statement = ++this.#statement;
    for (const oid of oids) {
      const slot = this.#slotOf(oid);
      if (slot === null) continue;
      const ordinal = this.#ordinal - 1;
      this.#active.add(ChangeKind.truncate, flags, slot.indexInBatch, ordinal, 0, 0, statement, statement);
    }
  }

  /**
   * A shape marker stands between transactions and becomes one of its own, without a time: nobody waits for it. Messages
   * of others carry nothing for us.
   */
  #message(bytes: Buffer): void {
    const message = readLogicalMessage(bytes, shapeMarkerPrefix);
    if (message === null || message.lsn < this.checkpoint.resumeLsn || this.#active.inTransaction) return;
    const shapes = this.shapesAt(message.content, message.lsn);
    if (shapes.length === 0) return;
    this.#active.begin(message.lsn, 0n, 0);
    shapes.forEach((relation, ordinal) => {
      const index = this.#active.addRelation(relation);
      this.#active.add(ChangeKind.shape, 0, index, ordinal, 0, 0, 0, 0);
      this.registry.rename(relation);
    });
    this.#active.commit(message.lsn);
    this.#lastOid = -1;
    this.registry.beginBatch(this.#active.relations);
  }

  /** `operation` null: the tuple is an update's old row. */
  #transform(transformer: TupleTransformer, at: number, oldAt: number, operation: Operation | null): void {
    if (this.form === "binary" && transformer.needsText) {
      throw new MillraceError("stream_form_changed", "values are made of text forms: text from here on");
    }
    transformer.rewrite(this.#active, at, oldAt, operation && { operation, lsn: this.#commitLsn });
  }
}
