// What a stream holds between its socket and its reader: the batch that is being filled, and those that a large message has
// closed. A large message makes a batch of its own, in the memory that it came in: it is neither copied, nor held by others.

import { type BatchBuilder, emptyBatch, heldBytes } from "../../../change/batch-builder.ts";
import type { ChangeBatch, TupleForm } from "../../../change/change-batch.ts";
import type { Relation } from "../../../change/relation.ts";
import { ampleBytes } from "./feedback.ts";
import type { PgoutputDecoder } from "./pgoutput-decoder.ts";
import { partOf, type TransactionEnd, type TransactionInProgress } from "./transaction-in-progress.ts";

export interface StreamBounds {
  /** The socket is paused while more than this waits to be taken. */
  readonly maxBufferedBytes: number;
  readonly maxBufferedRows: number;
  /** A transaction that is larger is handed out in pieces of about this size. */
  readonly pieceBytes: number;
  /**
   * Of a transaction in progress. A walsender first reads as much of one as logical_decoding_work_mem holds, and is silent
   * meanwhile, and then sends that at once: what waits here is the sink's work during the silence.
   */
  readonly ahead: { readonly bytes: number; readonly rows: number };
  /** So many rows of a transaction in progress make a batch, however few bytes they have. */
  readonly batchRows: number;
}

/** Some tens of thousands make a batch cheap. With more the sink begins later, and has more left when the stream is done. */
const defaultBufferedRows = 50_000;

/** Each batch has memory of its own, however few rows are in it. */
const leastBatchRows = 1024;

/** `maxBufferedRows` 0: the default. */
export function streamBounds(maxBufferedRows: number): StreamBounds {
  return {
    maxBufferedBytes: 16 * 1024 * 1024,
    maxBufferedRows: maxBufferedRows || defaultBufferedRows,
    pieceBytes: 1024 * 1024,
    ahead: { bytes: 32 * 1024 * 1024, rows: maxBufferedRows || Number.POSITIVE_INFINITY },
    batchRows: Math.max(leastBatchRows, maxBufferedRows || defaultBufferedRows),
  };
}

export class StreamBuffer {
  #closed: { readonly batch: ChangeBatch; readonly relations: Relation[] }[] = [];
  #closedBytes = 0;
  #closedRows = 0;
  /** Of a large batch that the reader has: there is no memory for another one beside it. */
  #bytesOut = 0;
  /** What was handed out last ends within a transaction. */
  #owesEnd = false;

  constructor(
    private readonly decoder: PgoutputDecoder,
    private readonly form: TupleForm,
    private readonly bounds: StreamBounds,
  ) {
    decoder.ended = (transaction, end) => this.#end(transaction, end);
  }

  /** No change waits. */
  get isEmpty(): boolean {
    return this.#builder.count === 0 && this.#closed.length === 0;
  }

  get isFull(): boolean {
    const { bytes, count } = this.#builder;
    // Amid the pieces of another it is not handed out, and does not grow: to wait for it there would be for ever.
    const isWaiting = this.#owesEnd && this.#builder.inTransaction;
    const part = isWaiting ? undefined : this.#inProgress?.builder;
    const isAhead = part !== undefined && this.decoder.filling === part;
    const most = isAhead ? this.bounds.ahead : this.#most;
    // Between its blocks a part stands and is no reason to hand out the others one by one.
    const rows = (isAhead ? count + part.count : Math.max(count, part?.count ?? 0)) + this.#closedRows;
    const held = bytes + (part?.bytes ?? 0) + this.#closedBytes + this.#bytesOut;
    return held >= most.bytes || rows >= most.rows;
  }

  /**
   * Inserts do not become fewer by being many. Smaller batches of them stay in the processor's cache, and the sink begins
   * sooner and has less left when the stream is done.
   */
  get #most(): { readonly bytes: number; readonly rows: number } {
    const { maxBufferedBytes, maxBufferedRows } = this.bounds;
    const bytes = this.#builder.isInsertsOnly ? Math.min(ampleBytes, maxBufferedBytes) : maxBufferedBytes;
    return { bytes, rows: maxBufferedRows };
  }

  /** Closes what has come of a transaction in progress, once it is as much as the sink is given at once. */
  divide(): void {
    const part = this.#inProgress?.builder;
    if (part === undefined || this.decoder.filling !== part) return;
    if (part.bytes >= ampleBytes || part.count >= this.bounds.batchRows) this.#closeFilling();
  }

  /** It is worth a transaction at the sink. */
  get isAmple(): boolean {
    const isMuch = this.#builder.bytes >= ampleBytes || this.#isPartInProgress;
    return this.#closed.length > 0 || isMuch || this.isFull;
  }

  get isDeliverable(): boolean {
    const isAny = this.#closed.length > 0 || this.#builder.wholeCount > 0;
    return isAny || this.#isPiece || this.#isOwedEnd || this.#isPartInProgress;
  }

  /** The lists of relations of all that waits, in which one may be replaced. */
  get relationLists(): Relation[][] {
    const own = this.#inProgress ? [this.#inProgress.builder.relations] : [];
    return [this.#builder.relations, ...own, ...this.#closed.map(({ relations }) => relations)];
  }

  /** Takes a message in memory that is its own, `bytes[at, end)`. */
  receiveLarge(bytes: Buffer, at: number, end: number): void {
    this.#closeFilling();
    this.decoder.filling.adopt(new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length));
    this.decoder.decode(bytes, at, end);
    if (this.decoder.filling.count > 0) this.#closeFilling();
    else this.decoder.filling.adopt(new Uint8Array());
  }

  /** The reader is done with what it took last. */
  takeBack(): void {
    this.#bytesOut = 0;
  }

  take(): ChangeBatch | null {
    const batch = this.#next();
    if (batch === null) return null;
    if (!batch.inProgress) this.#owesEnd = batch.endsInTransaction;
    const { byteLength } = batch.arena;
    this.#bytesOut = byteLength > this.bounds.maxBufferedBytes ? byteLength : 0;
    return batch;
  }

  get #builder(): BatchBuilder {
    return this.decoder.builder;
  }

  get #inProgress(): TransactionInProgress | null {
    return this.decoder.inProgress;
  }

  #next(): ChangeBatch | null {
    const closed = this.#closed.shift();
    if (closed) {
      this.#forget(closed.batch);
      const { xid } = closed.batch.inProgress ?? {};
      if (xid !== undefined && xid === this.#inProgress?.xid) this.#inProgress.isTaken = true;
      return closed.batch;
    }
    if (this.#builder.wholeCount > 0) return this.#continueWith(this.#builder.takeWhole());
    if (this.#isPiece) return this.#continueWith(this.#builder.takeAll());
    if (this.#isOwedEnd) return emptyBatch(this.form, this.#builder.resumeLsn);
    if (!this.#inProgress || !this.#isPartInProgress) return null;
    this.#inProgress.isTaken = true;
    return this.#takePart(this.#inProgress);
  }

  /** So much has come of the transaction in progress that it is handed out, where no other is being handed out in pieces. */
  get #isPartInProgress(): boolean {
    const builder = this.#inProgress?.builder;
    if (!builder || builder.count === 0 || this.#owesEnd) return false;
    return builder.bytes >= this.bounds.pieceBytes || this.isFull;
  }

  #takePart(transaction: TransactionInProgress): ChangeBatch {
    transaction.hasParts = true;
    const { batch, rest } = transaction.builder.takeAll();
    this.decoder.continueWith(rest, transaction);
    return { ...batch, endsInTransaction: false, inProgress: partOf(transaction, null) };
  }

  /** What was committed before comes before it. One of which nothing has been handed out is one like the others by now. */
  #end(transaction: TransactionInProgress, end: TransactionEnd): void {
    const { builder } = transaction;
    if (end.outcome === "aborted") this.#drop(transaction);
    const isKnown = end.outcome === "aborted" ? transaction.isTaken : transaction.hasParts;
    const inProgress = isKnown ? partOf(transaction, end) : undefined;
    this.#closeBefore();
    if (end.outcome === "committed") {
      builder.settle(end.commitLsn, end.timeUs);
      builder.commit(end.endLsn);
      const { batch } = builder.takeAll();
      if (isKnown || batch.count > 0) this.#queue({ ...batch, inProgress }, builder.relations);
    } else if (isKnown) this.#queue({ ...emptyBatch(this.form, transaction.since), inProgress }, []);
  }

  /** What waits of a transaction that is no more needs not be written first. */
  #drop({ xid }: TransactionInProgress): void {
    const isOf = ({ batch }: { readonly batch: ChangeBatch }) => batch.inProgress?.xid === xid;
    for (const { batch } of this.#closed.filter(isOf)) this.#forget(batch);
    this.#closed = this.#closed.filter((closed) => !isOf(closed));
  }

  /** So much of one transaction has come that it is handed out before its end. */
  get #isPiece(): boolean {
    const { count, bytes } = this.#builder;
    return count > 0 && (bytes >= this.bounds.pieceBytes || this.isFull);
  }

  /** A transaction whose last piece is handed out has ended: the sink must hear of it to commit. */
  get #isOwedEnd(): boolean {
    return this.#owesEnd && !this.#builder.inTransaction;
  }

  #closeFilling(): void {
    const transaction = this.#inProgress;
    if (transaction === null || this.decoder.filling !== transaction.builder) this.#close();
    else if (transaction.builder.count > 0) {
      this.#closeBefore();
      const { relations } = transaction.builder;
      this.#queue(this.#takePart(transaction), relations);
    }
  }

  /** What was committed before a part that is queued comes before it, and ends before it: also one that was handed out in pieces. */
  #closeBefore(): void {
    this.#close();
    const last = this.#closed.findLast(({ batch }) => !batch.inProgress)?.batch;
    const owesEnd = last ? last.endsInTransaction : this.#owesEnd;
    if (owesEnd && !this.#builder.inTransaction)
      this.#queue(emptyBatch(this.form, this.#builder.resumeLsn), []);
  }

  /** Closes the batch that is being filled, as one of whole transactions and a piece. */
  #close(): void {
    if (this.#builder.wholeCount > 0) this.#keep((builder) => builder.takeWhole());
    if (this.#builder.count > 0) this.#keep((builder) => builder.takeAll());
  }

  #keep(take: (builder: BatchBuilder) => { batch: ChangeBatch; rest: BatchBuilder }): void {
    const { relations } = this.#builder;
    this.#queue(this.#continueWith(take(this.#builder)), relations);
  }

  #queue(batch: ChangeBatch, relations: Relation[]): void {
    this.#closed.push({ batch, relations });
    this.#closedBytes += heldBytes(batch);
    this.#closedRows += batch.count;
  }

  #forget(batch: ChangeBatch): void {
    this.#closedBytes -= heldBytes(batch);
    this.#closedRows -= batch.count;
  }

  #continueWith(taken: { batch: ChangeBatch; rest: BatchBuilder }): ChangeBatch {
    this.decoder.continueWith(taken.rest);
    return taken.batch;
  }
}
