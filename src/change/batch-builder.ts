// Fills a ChangeBatch: growing arrays over one arena. The source's decoder writes tuples straight into `arena`;
// the builder knows where transactions begin and end, and where the batch may be cut.

import { type ChangeBatch, ChangeKind, type TupleForm } from "./change-batch.ts";
import { type Lsn, lsn } from "./lsn.ts";
import type { Relation } from "./relation.ts";

const initialChanges = 256;
const initialTransactions = 64;
const initialArenaBytes = 16 * 1024;
/** What a builder begins with at most: memory that is not written to costs little, but a large value comes seldom twice. */
const mostBeforehand = { changes: 64 * 1024, transactions: 64 * 1024, arenaBytes: 4.5 * 1024 * 1024 };

/** What a batch keeps of each change beside its values, and where its place is kept. */
const changeBytes = 30;
const placeBytes = 8;

/** Memory that a batch holds on to, in bytes: what it keeps of its changes is much where rows are few. */
export function heldBytes({ arena, kind, place }: ChangeBatch): number {
  return arena.byteLength + kind.length * (place ? changeBytes + placeBytes : changeBytes);
}

export class BatchBuilder {
  /** Where the next tuple goes; written by the decoder after `reserve`. */
  arena: Uint8Array<ArrayBuffer> = new Uint8Array(initialArenaBytes);
  arenaEnd = 0;
  count = 0;
  relations: Relation[] = [];
  /** Behind the last transaction that ended, in this builder or before it. */
  resumeLsn: Lsn;
  /** Of the change that is added next; see `ChangeBatch`. */
  place = 0;

  #capacity = initialChanges;
  #kind = new Uint8Array(initialChanges);
  #flags = new Uint8Array(initialChanges);
  #relation = new Uint32Array(initialChanges);
  #transaction = new Uint32Array(initialChanges);
  #ordinal = new Uint32Array(initialChanges);
  #oldStart = new Uint32Array(initialChanges);
  #oldEnd = new Uint32Array(initialChanges);
  #newStart = new Uint32Array(initialChanges);
  #newEnd = new Uint32Array(initialChanges);
  /** Binary batches go to sinks that have no use for it. */
  #place: Float64Array<ArrayBuffer> | null;

  #transactions = 0;
  #transactionCapacity = initialTransactions;
  #commitLsn = new BigUint64Array(initialTransactions);
  #endLsn = new BigUint64Array(initialTransactions);
  #commitTimeUs = new BigInt64Array(initialTransactions);
  #xid = new Uint32Array(initialTransactions);

  /** The open transaction, kept outside the arrays until its first change. */
  #open: { commitLsn: bigint; commitTimeUs: bigint; xid: number; listed: boolean } | null = null;
  #isInsertsOnly = true;
  /** Changes and arena bytes up to the last transaction that ended. */
  #wholeCount = 0;
  #wholeArenaEnd = 0;

  constructor(
    private readonly form: TupleForm,
    resumeLsn: Lsn,
  ) {
    this.resumeLsn = resumeLsn;
    this.#place = form === "text" ? new Float64Array(initialChanges) : null;
  }

  get inTransaction(): boolean {
    return this.#open !== null;
  }

  /** Changes of transactions that have ended. */
  get wholeCount(): number {
    return this.#wholeCount;
  }

  /** None of its changes can take the place of another. */
  get isInsertsOnly(): boolean {
    return this.#isInsertsOnly;
  }

  /** Bytes of what it holds, roughly. */
  get bytes(): number {
    return this.arenaEnd + this.count * changeBytes;
  }

  begin(commitLsn: bigint, commitTimeUs: bigint, xid: number): void {
    this.#open = { commitLsn, commitTimeUs, xid, listed: false };
  }

  /** Says where the open transaction was committed, which was not known when it was begun. */
  settle(commitLsn: Lsn, commitTimeUs: bigint): void {
    const open = this.#open;
    if (open === null) throw new Error("no transaction is open");
    open.commitLsn = commitLsn;
    open.commitTimeUs = commitTimeUs;
    if (!open.listed) return;
    this.#commitLsn[this.#transactions - 1] = commitLsn;
    this.#commitTimeUs[this.#transactions - 1] = commitTimeUs;
  }

  commit(endLsn: Lsn): void {
    if (this.#open?.listed) this.#endLsn[this.#transactions - 1] = endLsn;
    this.#open = null;
    // A transaction that is done already may end before the place where the stream was asked to begin.
    if (endLsn > this.resumeLsn) this.resumeLsn = endLsn;
    this.#wholeCount = this.count;
    this.#wholeArenaEnd = this.arenaEnd;
  }

  /** Index of `relation` in the batch; a relation is to be added once. */
  addRelation(relation: Relation): number {
    return this.relations.push(relation) - 1;
  }

  /** Makes room for `bytes` behind `arenaEnd`. */
  reserve(bytes: number): void {
    const needed = this.arenaEnd + bytes;
    if (needed <= this.arena.length) return;
    const grown = new Uint8Array(Math.max(needed, this.arena.length * 2));
    grown.set(this.arena.subarray(0, this.arenaEnd));
    this.arena = grown;
  }

  /** Takes memory in which the next tuples are made, in the place of its own. Only while it holds no change. */
  adopt(arena: Uint8Array<ArrayBuffer>): void {
    if (this.count > 0) throw new Error("a builder that holds changes cannot take another arena");
    this.arena = arena;
    this.arenaEnd = 0;
  }

  /** Lists a change whose tuples have been written. Empty tuples are `start === end`. */
  add(
    kind: ChangeKind,
    flags: number,
    relation: number,
    ordinal: number,
    oldStart: number,
    oldEnd: number,
    newStart: number,
    newEnd: number,
  ): void {
    const i = this.count;
    if (i === this.#capacity) this.#growChanges();
    if (kind !== ChangeKind.insert) this.#isInsertsOnly = false;
    this.#kind[i] = kind;
    this.#flags[i] = flags;
    this.#relation[i] = relation;
    this.#transaction[i] = this.#listTransaction();
    this.#ordinal[i] = ordinal;
    this.#oldStart[i] = oldStart;
    this.#oldEnd[i] = oldEnd;
    this.#newStart[i] = newStart;
    this.#newEnd[i] = newEnd;
    if (this.#place !== null) this.#place[i] = this.place;
    this.count = i + 1;
  }

  /** The batch up to the last transaction that ended, and a builder that goes on with what is behind it. */
  takeWhole(): { batch: ChangeBatch; rest: BatchBuilder } {
    const rest = new BatchBuilder(this.form, this.resumeLsn);
    rest.#makeRoomAsIn(this);
    rest.#adoptTail(this);
    const openIsListed = this.#open?.listed === true;
    const transactions = openIsListed ? this.#transactions - 1 : this.#transactions;
    return { batch: this.#batch(this.#wholeCount, transactions, false), rest };
  }

  /** Everything so far, also of the open transaction, and a builder that goes on inside it. */
  takeAll(): { batch: ChangeBatch; rest: BatchBuilder } {
    const rest = new BatchBuilder(this.form, this.resumeLsn);
    rest.#makeRoomAsIn(this);
    if (this.#open) rest.#open = { ...this.#open, listed: false };
    return { batch: this.#batch(this.count, this.#transactions, this.#open?.listed === true), rest };
  }

  #batch(count: number, transactions: number, endsInTransaction: boolean): ChangeBatch {
    return {
      form: this.form,
      count,
      relations: this.relations,
      arena: this.arena,
      kind: this.#kind,
      flags: this.#flags,
      relation: this.#relation,
      transaction: this.#transaction,
      ordinal: this.#ordinal,
      oldStart: this.#oldStart,
      oldEnd: this.#oldEnd,
      newStart: this.#newStart,
      newEnd: this.#newEnd,
      ...(this.#place === null ? {} : { place: this.#place }),
      transactions: {
        count: transactions,
        commitLsn: this.#commitLsn,
        endLsn: this.#endLsn,
        commitTimeUs: this.#commitTimeUs,
        xid: this.#xid,
      },
      endsInTransaction,
      resumeLsn: this.resumeLsn,
    };
  }

  /** Takes over what `from` holds of its open transaction. */
  #adoptTail(from: BatchBuilder): void {
    if (from.#open) this.#open = { ...from.#open, listed: false };
    const shift = from.#wholeArenaEnd;
    this.reserve(from.arenaEnd - shift);
    this.arena.set(from.arena.subarray(shift, from.arenaEnd));
    this.arenaEnd = from.arenaEnd - shift;
    if (from.count > from.#wholeCount) this.relations = [...from.relations];
    for (let i = from.#wholeCount; i < from.count; i++) {
      const hasOld = from.#oldEnd[i]! > from.#oldStart[i]!;
      this.place = from.#place?.[i] ?? 0;
      const hasNew = from.#newEnd[i]! > from.#newStart[i]!;
      this.add(
        from.#kind[i] as ChangeKind,
        from.#flags[i]!,
        from.#relation[i]!,
        from.#ordinal[i]!,
        hasOld ? from.#oldStart[i]! - shift : 0,
        hasOld ? from.#oldEnd[i]! - shift : 0,
        hasNew ? from.#newStart[i]! - shift : from.#newStart[i]!,
        hasNew ? from.#newEnd[i]! - shift : from.#newEnd[i]!,
      );
    }
  }

  /** Index of the open transaction in the transaction arrays. */
  #listTransaction(): number {
    const open = this.#open;
    if (open === null) throw new Error("a change outside a transaction");
    if (open.listed) return this.#transactions - 1;
    const i = this.#transactions;
    if (i === this.#transactionCapacity) this.#growTransactions();
    this.#commitLsn[i] = open.commitLsn;
    this.#endLsn[i] = 0n;
    this.#commitTimeUs[i] = open.commitTimeUs;
    this.#xid[i] = open.xid;
    open.listed = true;
    this.#transactions = i + 1;
    return i;
  }

  /**
   * Under load the next batch is about as large as the last: to grow to that by doubling would copy most of it twice. One that is a
   * little larger would do so at its end, and take twice the memory.
   */
  #makeRoomAsIn(last: BatchBuilder): void {
    const arenaBytes = Math.min(Math.ceil(last.arenaEnd * 1.125), mostBeforehand.arenaBytes);
    if (arenaBytes > this.arena.length) this.arena = new Uint8Array(arenaBytes);
    const changes = Math.min(last.count, mostBeforehand.changes);
    if (changes > this.#capacity) this.#growChanges(changes);
    const transactions = Math.min(last.#transactions, mostBeforehand.transactions);
    if (transactions > this.#transactionCapacity) this.#growTransactions(transactions);
  }

  #growChanges(capacity = this.#capacity * 2): void {
    this.#kind = grownBytes(this.#kind, capacity);
    this.#flags = grownBytes(this.#flags, capacity);
    this.#relation = grownWords(this.#relation, capacity);
    this.#transaction = grownWords(this.#transaction, capacity);
    this.#ordinal = grownWords(this.#ordinal, capacity);
    this.#oldStart = grownWords(this.#oldStart, capacity);
    this.#oldEnd = grownWords(this.#oldEnd, capacity);
    this.#newStart = grownWords(this.#newStart, capacity);
    this.#newEnd = grownWords(this.#newEnd, capacity);
    this.#place = this.#place && grownPlaces(this.#place, capacity);
    this.#capacity = capacity;
  }

  #growTransactions(capacity = this.#transactionCapacity * 2): void {
    const commitLsn = new BigUint64Array(capacity);
    commitLsn.set(this.#commitLsn);
    this.#commitLsn = commitLsn;
    const endLsn = new BigUint64Array(capacity);
    endLsn.set(this.#endLsn);
    this.#endLsn = endLsn;
    const commitTimeUs = new BigInt64Array(capacity);
    commitTimeUs.set(this.#commitTimeUs);
    this.#commitTimeUs = commitTimeUs;
    this.#xid = grownWords(this.#xid, capacity);
    this.#transactionCapacity = capacity;
  }
}

function grownBytes(from: Uint8Array, capacity: number): Uint8Array<ArrayBuffer> {
  const grown = new Uint8Array(capacity);
  grown.set(from);
  return grown;
}

function grownWords(from: Uint32Array, capacity: number): Uint32Array<ArrayBuffer> {
  const grown = new Uint32Array(capacity);
  grown.set(from);
  return grown;
}

function grownPlaces(from: Float64Array, capacity: number): Float64Array<ArrayBuffer> {
  const grown = new Float64Array(capacity);
  grown.set(from);
  return grown;
}

/** A batch without changes that says how far the stream has come. */
export function emptyBatch(form: TupleForm, resumeLsn: Lsn): ChangeBatch {
  return new BatchBuilder(form, lsn(resumeLsn)).takeAll().batch;
}
