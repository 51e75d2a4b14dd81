// Turns pgoutput messages into a batch. The hot loop of every stream: it copies each tuple once from the socket's
// buffer into the arena, in the layout of COPY BINARY, and makes no object or string for a row.
// https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html

import type { BatchBuilder } from "../../change/batch-builder.ts";
import {
  ChangeFlag,
  ChangeKind,
  NULL_LENGTH,
  type TupleForm,
  UNCHANGED_LENGTH,
} from "../../change/change-batch.ts";
import type { Checkpoint } from "../../change/checkpoint.ts";
import { type Lsn, lsn } from "../../change/lsn.ts";
import { storedBytes } from "../../change/packed-hex.ts";
import type { Relation } from "../../change/relation.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { readLogicalMessage, readRelationMessage, readTruncateMessage } from "./pgoutput-messages.ts";
import type { RelationRegistry, RelationSlot } from "./relation-registry.ts";
import type { TupleRenderer } from "./row-rendering.ts";
import { fencePrefix } from "./shape-fences.ts";
import type { Operation } from "./system-columns.ts";

/** Microseconds from 1970-01-01 to 2000-01-01, where Postgres counts from. */
const postgresEpochUs = 946_684_800_000_000n;

const B = 0x42;
const C = 0x43;
const D = 0x44;
const I = 0x49;
const K = 0x4b;
const M = 0x4d;
const N = 0x4e;
const O = 0x4f;
const R = 0x52;
const T = 0x54;
const U = 0x55;
const columnNull = 0x6e;
const columnText = 0x74;
const columnUnchanged = 0x75;
const columnBinary = 0x62;

/** Shorter values are copied byte by byte: that is cheaper than a call for each. */
const inlineCopyBytes = 24;

export class PgoutputDecoder {
  builder: BatchBuilder;
  /** Commit time of the transaction that was begun last, microseconds since 1970. */
  lastCommitTimeUs: bigint | null = null;

  #commitLsn: Lsn;
  #xid = 0;
  #ordinal = 0;
  /** Ordinals up to here are done under the checkpoint. */
  #skipThrough = -1;
  #statement = 0;
  #lastOid = -1;
  #lastSlot: RelationSlot | null = null;
  /** Set by `#tuple`: whether it met an unchanged TOAST value, and where it stopped reading. */
  #sawUnchanged = false;
  #readEnd = 0;

  constructor(
    builder: BatchBuilder,
    private readonly form: TupleForm,
    private readonly checkpoint: Checkpoint,
    private readonly registry: RelationRegistry,
    private readonly shapesAt: (fence: string, at: Lsn) => readonly Relation[],
  ) {
    this.builder = builder;
    this.#commitLsn = checkpoint.resumeLsn;
  }

  /** Takes the message `bytes[at, end)`. The bytes are used again: what is kept is copied here. */
  decode(bytes: Buffer, at: number, end: number): void {
    switch (bytes[at]) {
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
        break;
      case R:
        this.#lastOid = -1;
        this.registry.announce(readRelationMessage(bytes.subarray(at, end)), this.#commitLsn, this.#xid);
        break;
      case T:
        this.#truncate(bytes.subarray(at, end));
        break;
      case M:
        this.#message(bytes.subarray(at, end));
        break;
      // Types and origins carry no rows.
    }
  }

  /** Goes on with another builder, behind a batch that was taken. */
  continueWith(builder: BatchBuilder): void {
    this.builder = builder;
    this.#lastOid = -1;
    this.registry.beginBatch(builder.relations);
  }

  #begin(bytes: Buffer, at: number): void {
    const commitLsn = bytes.readBigUInt64BE(at + 1) as Lsn;
    const commitTimeUs = bytes.readBigInt64BE(at + 9) + postgresEpochUs;
    this.#ordinal = 0;
    this.#commitLsn = commitLsn;
    this.#xid = bytes.readUInt32BE(at + 17);
    this.#skipThrough = skipThrough(this.checkpoint, commitLsn);
    this.lastCommitTimeUs = commitTimeUs;
    this.builder.begin(commitLsn, commitTimeUs, this.#xid);
    if (this.registry.reach(commitLsn, this.#xid)) this.#lastOid = -1;
  }

  /** The slot of a change's relation, or null when the change is not for us. Counts its ordinal. */
  #slotOf(oid: number): RelationSlot | null {
    const ordinal = this.#ordinal++;
    if (ordinal <= this.#skipThrough) return null;
    if (oid === this.#lastOid) return this.#lastSlot;
    const slot = this.registry.find(oid);
    if (!slot) throw new MillraceError("protocol_violation", `pgoutput: relation ${oid} was not announced`);
    if (slot.selected && slot.indexInBatch < 0) slot.indexInBatch = this.builder.addRelation(slot.relation);
    this.#lastOid = oid;
    this.#lastSlot = slot.selected ? slot : null;
    return this.#lastSlot;
  }

  #insert(bytes: Buffer, at: number, end: number): void {
    const slot = this.#slotOf(bytes.readUInt32BE(at + 1));
    if (slot === null) return;
    const builder = this.builder;
    const start = builder.arenaEnd;
    this.#tuple(bytes, at + 6, end, slot);
    if (slot.renderer !== null) this.#render(slot.renderer, start, -1, "insert");
    builder.add(ChangeKind.insert, 0, slot.indexInBatch, this.#ordinal - 1, 0, 0, start, builder.arenaEnd);
  }

  #update(bytes: Buffer, at: number, end: number): void {
    const slot = this.#slotOf(bytes.readUInt32BE(at + 1));
    if (slot === null) return;
    const builder = this.builder;
    const tag = bytes[at + 5]!;
    const oldStart = builder.arenaEnd;
    let flags = 0;
    let tupleAt = at + 6;
    if (tag !== N) {
      this.#tuple(bytes, tupleAt, end, slot);
      if (slot.renderer !== null) this.#render(slot.renderer, oldStart, -1, null);
      if (tag === K) flags |= ChangeFlag.oldIsKey;
      tupleAt = this.#readEnd + 1;
    }
    const newStart = builder.arenaEnd;
    this.#tuple(bytes, tupleAt, end, slot);
    if (slot.renderer !== null) {
      this.#render(slot.renderer, newStart, tag === O ? oldStart : -1, "update");
    }
    if (this.#sawUnchanged) flags |= ChangeFlag.hasUnchanged;
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
    const builder = this.builder;
    const start = builder.arenaEnd;
    // Before the tuple: that may be made in the memory of its message.
    const flags = bytes[at + 5] === O ? 0 : ChangeFlag.oldIsKey;
    this.#tuple(bytes, at + 6, end, slot);
    if (slot.renderer !== null) this.#render(slot.renderer, start, -1, "delete");
    builder.add(
      ChangeKind.delete,
      flags,
      slot.indexInBatch,
      this.#ordinal - 1,
      start,
      builder.arenaEnd,
      0,
      0,
    );
  }

  #truncate(message: Buffer): void {
    const { options, oids } = readTruncateMessage(message);
    const flags =
      ((options & 1) !== 0 ? ChangeFlag.cascade : 0) | ((options & 2) !== 0 ? ChangeFlag.restartIdentity : 0);
    const statement = ++this.#statement;
    for (const oid of oids) {
      const slot = this.#slotOf(oid);
      if (slot === null) continue;
      const ordinal = this.#ordinal - 1;
      this.builder.add(ChangeKind.truncate, flags, slot.indexInBatch, ordinal, 0, 0, statement, statement);
    }
  }

  /** A fence stands between transactions, and is one of its own. Other people's messages carry nothing for us. */
  #message(bytes: Buffer): void {
    const message = readLogicalMessage(bytes, fencePrefix);
    if (message === null || message.lsn < this.checkpoint.resumeLsn || this.builder.inTransaction) return;
    const shapes = this.shapesAt(message.content, message.lsn);
    if (shapes.length === 0) return;
    this.builder.begin(message.lsn, this.lastCommitTimeUs ?? 0n, 0);
    shapes.forEach((relation, ordinal) => {
      const index = this.builder.addRelation(relation);
      this.builder.add(ChangeKind.shape, 0, index, ordinal, 0, 0, 0, 0);
      this.registry.rename(relation);
    });
    this.builder.commit(message.lsn);
    this.#lastOid = -1;
    this.registry.beginBatch(this.builder.relations);
  }

  /** Copies the tuple at `bytes[at]` of a message that ends at `messageEnd` to the arena. Leaves in `#readEnd` where it ends. */
  #tuple(bytes: Buffer, at: number, messageEnd: number, slot: RelationSlot): void {
    const builder = this.builder;
    const count = (bytes[at]! << 8) | bytes[at + 1]!;
    // A null takes one byte in the message and four in the arena.
    builder.reserve(messageEnd - at + 3 * count + 2);
    const arena = builder.arena;
    const keep = slot.keep;
    const headerAt = builder.arenaEnd;
    let kept = 0;
    let write = headerAt + 2;
    let read = at + 2;
    this.#sawUnchanged = false;
    for (let i = 0; i < count; i++) {
      const kind = bytes[read++]!;
      const isKept = keep === null || keep[i] === 1;
      if (isKept) kept++;
      if (kind === columnBinary || kind === columnText) {
        const length = this.#valueLength(bytes, read, messageEnd, kind);
        const end = read + 4 + length;
        if (isKept) {
          // The length travels with its value.
          if (length <= inlineCopyBytes) while (read < end) arena[write++] = bytes[read++]!;
          else {
            bytes.copy(arena, write, read, end);
            write += end - read;
          }
        }
        read = end;
      } else if (kind === columnNull || kind === columnUnchanged) {
        if (!isKept) continue;
        if (kind === columnUnchanged) this.#sawUnchanged = true;
        write = writeInt32(arena, write, kind === columnNull ? NULL_LENGTH : UNCHANGED_LENGTH);
      } else {
        throw new MillraceError("protocol_violation", `pgoutput: column kind ${kind}`);
      }
    }
    arena[headerAt] = kept >> 8;
    arena[headerAt + 1] = kept & 0xff;
    builder.arenaEnd = write;
    this.#readEnd = read;
  }

  /** `operation` null: the tuple is the old row of an update. */
  #render(renderer: TupleRenderer, at: number, oldAt: number, operation: Operation | null): void {
    if (this.form === "binary" && renderer.needsText) {
      throw new MillraceError("stream_form_changed", "values are made of text forms: text from here on");
    }
    renderer.rewrite(this.builder, at, oldAt, operation && { operation, lsn: this.#commitLsn });
  }

  /** Of the bytes behind a value's length. That travels as it stands there. */
  #valueLength(bytes: Buffer, at: number, messageEnd: number, kind: number): number {
    if (kind === columnText && this.form === "binary") {
      throw new MillraceError("stream_form_changed", "a column's type has no binary form: text from here on");
    }
    const length = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
    const stored = storedBytes(length);
    if (length < 0 || at + 4 + stored > messageEnd) {
      throw new MillraceError("protocol_violation", "pgoutput: a value is longer than its message");
    }
    return stored;
  }
}

/** The last ordinal of the transaction that is done already; -1 for none, Infinity for all. */
function skipThrough(checkpoint: Checkpoint, commitLsn: Lsn): number {
  if (commitLsn < checkpoint.resumeLsn) return Number.POSITIVE_INFINITY;
  const partial = checkpoint.partial;
  if (partial === null || commitLsn > partial.commitLsn) return -1;
  return commitLsn === partial.commitLsn ? partial.ordinal : Number.POSITIVE_INFINITY;
}

function writeInt32(target: Uint8Array, at: number, value: number): number {
  target[at] = value >>> 24;
  target[at + 1] = (value >>> 16) & 0xff;
  target[at + 2] = (value >>> 8) & 0xff;
  target[at + 3] = value & 0xff;
  return at + 4;
}
