// Fills a ChangeBatch: growing arrays over one arena. The source's decoder writes tuples straight into `arena`; the
// builder tracks where transactions begin and end, and where the batch may be cut.

import { type ChangeBatch, ChangeKind, type TupleForm } from "./change-batch.ts";
import type { Lsn } from "./lsn.ts";
import type { Relation } from "./relation.ts";

const initialChanges = 256;
const initialTransactions = 64;
const initialArenaBytes = 16 * 1024;
/**
 * The most that a new builder allocates in advance. Untouched memory costs little, but a large value seldom comes twice
 * in a row.
 */
const maxPreallocated = { changes: 64 * 1024, transactions: 64 * 1024, arenaBytes: 4.5 * 1024 * 1024 };

/** What a batch stores for each change besides its values; in text form also the change's LSN. */
const changeBytes = 30;
const changeLsnBytes = 8;

/** Memory that a batch keeps alive, in bytes. Where rows are small, the arrays outweigh the arena. */
export function retainedBytes({ arena, kind, changeLsn }: ChangeBatch): number {
  return arena.byteLength + kind.length * (changeLsn ? changeBytes + changeLsnBytes : changeBytes);
}

export class BatchBuilder {
  /** Where the next tuple goes; written by the decoder after `reserve`. */
  arena: Uint8Array<ArrayBuffer> = new Uint8Array(initialArenaBytes);
  arenaEnd = 0;
  count = 0;
  relations: Relation[] = [];
  /** Behind the last transaction that ended, in this builder or an earlier one. */
  resumeLsn: Lsn;
  /** Of the next change that is added; see `ChangeBatch`. */
  changeLsn = 0;

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
  /** Null in binary form: no sink that takes binary tuples uses it. */
  #changeLsn: Float64Array<ArrayBuffer> | null;

  #transactions = 0;
  #transactionCapacity = initialTransactions;
  #commitLsn = new BigUint64Array(initialTransactions);
  #endLsn = new BigUint64Array(initialTransactions);
  #commitTimeUs = new BigInt64Array(initialTransactions);
  #xid = new Uint32Array(initialTransactions);

  /** The open transaction. It enters the arrays with its first change, so that empty transactions take no space. */
  #open: { commitLsn: bigint; commitTimeUs: bigint; xid: number; listed: boolean } | null = null;
  #isInsertsOnly = true;
  /** Changes and arena bytes of the transactions that have ended. */
  #completeCount = 0;
  #completeArenaEnd = 0;

  constructor(
    private readonly form: TupleForm,
    resumeLsn: Lsn,
  ) {
    this.resumeLsn = resumeLsn;
    this.#changeLsn = form === "text" ? new Float64Array(initialChanges) : null;
  }

  get inTransaction(): boolean {
    return this.#open !== null;
  }

  /** Changes of transactions that have ended. */
  get completeCount(): number {
    return this.#completeCount;
  }

  /** No change of the batch can replace another. */
  get isInsertsOnly(): boolean {
    return this.#isInsertsOnly;
  }

  /** Bytes in use, approximately. */
  get bytes(): number {
    return this.arenaEnd + this.count * changeBytes;
  }

  begin(commitLsn: bigint, commitTimeUs: bigint, xid: number): void {
    this.#open = { commitLsn, commitTimeUs, xid, listed: false };
  }

  /** Sets the commit of a transaction that was begun before its commit was known. */
  setCommit(commitLsn: Lsn, commitTimeUs: bigint): void {
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
    // A transaction that is already done may end before the LSN where the stream starts.
    if (endLsn > this.resumeLsn) this.resumeLsn = endLsn;
    this.#completeCount = this.count;
    this.#completeArenaEnd = this.arenaEnd;
  }

  /** Index of `relation` in the batch. Add each relation once. */
  addRelation(relation: Relation): number {
    return this.relations.push(relation) - 1;
  }

  /** Grows the arena where fewer than `bytes` are free behind `arenaEnd`. */
  reserve(bytes: number): void {
    const needed = this.arenaEnd + bytes;
    if (needed <= this.arena.length) return;
    const grown = new Uint8Array(Math.max(needed, this.arena.length * 2));
    grown.set(this.arena.subarray(0, this.arenaEnd));
    this.arena = grown;
  }

  /** Replaces the arena by memory that the caller provides. Only while the builder has no change. */
  useArena(arena: Uint8Array<ArrayBuffer>): void {
    if (this.count > 0) throw new Error("a builder that holds changes cannot take another arena");
    this.arena = arena;
    this.arenaEnd = 0;
  }

  /** Adds a change whose tuples are already in the arena. `start === end`: there is no such tuple. */
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
    if (this.#changeLsn !== null) this.#changeLsn[i] = this.changeLsn;
    this.count = i + 1;
  }

  /** The batch up to the last transaction that ended, and a builder that continues with the rest. */
  takeComplete(): { batch: ChangeBatch; rest: BatchBuilder } {
    const rest = new BatchBuilder(this.form, this.resumeLsn);
    rest.#preallocateLike(this);
    rest.#copyTail(this);
    const openIsListed = this.#open?.listed === true;
    const transactions = openIsListed ? this.#transactions - 1 : this.#transactions;
    return { batch: this.#batch(this.#completeCount, transactions, false), rest };
  }

  /** Everything so far, including the open transaction, and a builder that continues within it. */
  takeAll(): { batch: ChangeBatch; rest: BatchBuilder } {
    const rest = new BatchBuilder(this.form, this.resumeLsn);
    rest.#preallocateLike(this);
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
      ...(this.#changeLsn === null ? {} : { changeLsn: this.#changeLsn }),
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

  /** Copies what `from` has of its open transaction. */
  #copyTail(from: BatchBuilder): void {
    if (from.#open) this.#open = { ...from.#open, listed: false };
    const shift = from.#completeArenaEnd;
    this.reserve(from.arenaEnd - shift);
    this.arena.set(from.arena.subarray(shift, from.arenaEnd));
    this.arenaEnd = from.arenaEnd - shift;
    // Only those of the tail: tables of earlier transactions must not count towards the next batch.
    const indexes = new Int32Array(from.relations.length).fill(-1);
    for (let i = from.#completeCount; i < from.count; i++) {
      const relation = from.#relation[i]!;
      if (indexes[relation]! < 0) indexes[relation] = this.addRelation(from.relations[relation]!);
      const hasOld = from.#oldEnd[i]! > from.#oldStart[i]!;
      this.changeLsn = from.#changeLsn?.[i] ?? 0;
      const hasNew = from.#newEnd[i]! > from.#newStart[i]!;
      this.add(
        from.#kind[i] as ChangeKind,
        from.#flags[i]!,
        indexes[relation]!,
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
   * Under load the next batch is about as large as the last one: growing to that size by doubling would copy most of it
   * twice. The margin keeps a slightly larger batch from doubling at its end, and so from taking twice the memory.
   */
  #preallocateLike(last: BatchBuilder): void {
    const arenaBytes = Math.min(Math.ceil(last.arenaEnd * 1.125), maxPreallocated.arenaBytes);
    if (arenaBytes > this.arena.length) this.arena = new Uint8Array(arenaBytes);
    const changes = Math.min(last.count, maxPreallocated.changes);
    if (changes > this.#capacity) this.#growChanges(changes);
    const transactions = Math.min(last.#transactions, maxPreallocated.transactions);
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
    this.#changeLsn = this.#changeLsn && grownLsns(this.#changeLsn, capacity);
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

function grownLsns(from: Float64Array, capacity: number): Float64Array<ArrayBuffer> {
  const grown = new Float64Array(capacity);
  grown.set(from);
  return grown;
}

/** A batch without changes, to report how far the stream has come. */
export function emptyBatch(form: TupleForm, resumeLsn: Lsn): ChangeBatch {
  return new BatchBuilder(form, resumeLsn).takeAll().batch;
}
