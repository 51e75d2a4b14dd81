// Buffers changes between a stream's socket and its reader: the batch that is being filled, and a queue of complete
// ones. A large message becomes a batch of its own in the memory that it arrived in, so that it is not copied and keeps
// no other change in memory.

import { type BatchBuilder, emptyBatch, retainedBytes } from "../../../change/batch-builder.ts";
import type { ChangeBatch, TupleForm } from "../../../change/change-batch.ts";
import type { Relation } from "../../../change/relation.ts";
import { targetBatchBytes } from "./feedback.ts";
import type { PgoutputDecoder } from "./pgoutput-decoder.ts";
import { partOf, type TransactionEnd, type TransactionInProgress } from "./transaction-in-progress.ts";

export interface StreamBounds {
  /** The socket is paused while more than this is buffered. */
  readonly maxBufferedBytes: number;
  readonly maxBufferedRows: number;
  /** A batch of this size is handed out without collecting more. */
  readonly batchBytes: number;
  /** A larger transaction is handed out in pieces of about this size. */
  readonly pieceBytes: number;
  /**
   * The bounds while a transaction in progress arrives. A walsender reads as much of one as logical_decoding_work_mem
   * holds, silently, and then sends it at once: what is buffered here keeps the sink busy during the silence.
   */
  readonly ahead: { readonly bytes: number; readonly rows: number };
  /** So many rows of a transaction in progress make a batch, however few bytes they have. */
  readonly batchRows: number;
  /** A batch of so many tables is handed out without collecting more. */
  readonly maxTables: number;
}

/**
 * Some tens of thousands make a batch efficient. With more, the sink begins later and has more left when the stream
 * ends.
 */
const defaultBufferedRows = 50_000;

/** Each batch has memory of its own, however few rows it has. */
const minBatchRows = 1024;

/** `maxBufferedRows` 0: use the default. */
export function streamBounds(
  maxBufferedRows: number,
  batchBytes = targetBatchBytes,
  maxTables = Number.POSITIVE_INFINITY,
): StreamBounds {
  return {
    maxBufferedBytes: 16 * 1024 * 1024,
    maxBufferedRows: maxBufferedRows || defaultBufferedRows,
    batchBytes,
    pieceBytes: 1024 * 1024,
    ahead: { bytes: 32 * 1024 * 1024, rows: maxBufferedRows || Number.POSITIVE_INFINITY },
    batchRows: Math.max(minBatchRows, maxBufferedRows || defaultBufferedRows),
    maxTables,
  };
}

export class StreamBuffer {
  #queued: { readonly batch: ChangeBatch; readonly relations: Relation[] }[] = [];
  #queuedBytes = 0;
  #queuedRows = 0;
  /** Size of a large batch that the reader has: memory must not hold a second one at the same time. */
  #takenBytes = 0;
  /** The batch that was handed out last ends within a transaction. */
  #isMidTransaction = false;

  constructor(
    private readonly decoder: PgoutputDecoder,
    private readonly form: TupleForm,
    private readonly bounds: StreamBounds,
  ) {
    decoder.onEnd = (transaction, end) => this.#end(transaction, end);
    decoder.onCommit = () => {
      if (this.#builder.relations.length >= bounds.maxTables) this.#queueCommitted();
    };
  }

  /** No change is buffered. */
  get isEmpty(): boolean {
    return this.#builder.count === 0 && this.#queued.length === 0;
  }

  get isFull(): boolean {
    const { bytes, count } = this.#builder;
    // Until the pieces of another transaction are handed out, a part of this one is not, and does not grow: waiting for
    // it would never end.
    const isWaiting = this.#isMidTransaction && this.#builder.inTransaction;
    const part = isWaiting ? undefined : this.#inProgress?.builder;
    const isAhead = part !== undefined && this.decoder.activeBuilder === part;
    const max = isAhead ? this.bounds.ahead : this.#max;
    // Between its stream blocks a part does not grow: it is no reason to hand out other transactions one by one.
    const rows = (isAhead ? count + part.count : Math.max(count, part?.count ?? 0)) + this.#queuedRows;
    const bufferedBytes = bytes + (part?.bytes ?? 0) + this.#queuedBytes + this.#takenBytes;
    return bufferedBytes >= max.bytes || rows >= max.rows;
  }

  /**
   * A larger batch does not merge inserts into fewer changes. Smaller batches stay in the processor's cache, and the
   * sink begins sooner and has less left when the stream ends.
   */
  get #max(): { readonly bytes: number; readonly rows: number } {
    const { maxBufferedBytes, maxBufferedRows, batchBytes } = this.bounds;
    const bytes = this.#builder.isInsertsOnly ? Math.min(batchBytes, maxBufferedBytes) : maxBufferedBytes;
    return { bytes, rows: maxBufferedRows };
  }

  /** Queues what has arrived of a transaction in progress, once it is a full batch. */
  splitInProgress(): void {
    const part = this.#inProgress?.builder;
    if (part === undefined || this.decoder.activeBuilder !== part) return;
    if (part.bytes >= this.bounds.batchBytes || part.count >= this.bounds.batchRows) this.#queueActive();
  }

  /** A batch is large enough to be worth a transaction at the sink. */
  get hasFullBatch(): boolean {
    const isMuch = this.#builder.bytes >= this.bounds.batchBytes || this.#isPartInProgress;
    return this.#queued.length > 0 || isMuch || this.isFull;
  }

  get isDeliverable(): boolean {
    const isAny = this.#queued.length > 0 || this.#builder.completeCount > 0;
    return isAny || this.#isPiece || this.#isEndPending || this.#isPartInProgress;
  }

  /** The relations of everything that is buffered, as lists whose entries may be replaced. */
  get relationLists(): Relation[][] {
    const own = this.#inProgress ? [this.#inProgress.builder.relations] : [];
    return [this.#builder.relations, ...own, ...this.#queued.map(({ relations }) => relations)];
  }

  /** Takes the message `bytes[at, end)`, whose memory is free to keep. */
  receiveLarge(bytes: Buffer, at: number, end: number): void {
    this.#queueActive();
    this.decoder.activeBuilder.useArena(
      new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length),
    );
    this.decoder.decode(bytes, at, end);
    if (this.decoder.activeBuilder.count > 0) this.#queueActive();
    else this.decoder.activeBuilder.useArena(new Uint8Array());
  }

  /** The reader no longer uses the batch that it took last. */
  releaseTaken(): void {
    this.#takenBytes = 0;
  }

  take(): ChangeBatch | null {
    const batch = this.#next();
    if (batch === null) return null;
    if (!batch.inProgress) this.#isMidTransaction = batch.endsInTransaction;
    const { byteLength } = batch.arena;
    this.#takenBytes = byteLength > this.bounds.maxBufferedBytes ? byteLength : 0;
    return batch;
  }

  get #builder(): BatchBuilder {
    return this.decoder.builder;
  }

  get #inProgress(): TransactionInProgress | null {
    return this.decoder.inProgress;
  }

  #next(): ChangeBatch | null {
    const queued = this.#queued.shift();
    if (queued) {
      this.#uncount(queued.batch);
      const { xid } = queued.batch.inProgress ?? {};
      if (xid !== undefined && xid === this.#inProgress?.xid) this.#inProgress.isTaken = true;
      return queued.batch;
    }
    if (this.#builder.completeCount > 0) return this.#continueWith(this.#builder.takeComplete());
    if (this.#isPiece) return this.#continueWith(this.#builder.takeAll());
    if (this.#isEndPending) return emptyBatch(this.form, this.#builder.resumeLsn);
    if (!this.#inProgress || !this.#isPartInProgress) return null;
    this.#inProgress.isTaken = true;
    return this.#takePart(this.#inProgress);
  }

  /**
   * Enough has arrived of the transaction in progress to hand out a part, and no other transaction is being handed out
   * in pieces.
   */
  get #isPartInProgress(): boolean {
    const builder = this.#inProgress?.builder;
    if (!builder || builder.count === 0 || this.#isMidTransaction) return false;
    return builder.bytes >= this.bounds.pieceBytes || this.isFull;
  }

  #takePart(transaction: TransactionInProgress): ChangeBatch {
    transaction.hasParts = true;
    const { batch, rest } = transaction.builder.takeAll();
    this.decoder.continueWith(rest, transaction);
    return { ...batch, endsInTransaction: false, inProgress: partOf(transaction, null) };
  }

  /**
   * Queues a transaction's end, behind everything that was committed earlier. Where no part was handed out, the
   * transaction comes whole.
   */
  #end(transaction: TransactionInProgress, end: TransactionEnd): void {
    const { builder } = transaction;
    if (end.outcome === "aborted") this.#drop(transaction);
    const isKnown = end.outcome === "aborted" ? transaction.isTaken : transaction.hasParts;
    const inProgress = isKnown ? partOf(transaction, end) : undefined;
    this.#queueBefore();
    if (end.outcome === "committed") {
      builder.setCommit(end.commitLsn, end.timeUs);
      builder.commit(end.endLsn);
      const { batch } = builder.takeAll();
      if (isKnown || batch.count > 0) this.#queue({ ...batch, inProgress }, builder.relations);
    } else if (isKnown) {
      this.#queue({ ...emptyBatch(this.form, transaction.provisionalLsn), inProgress }, []);
    }
  }

  /** Drops the queued parts of an aborted transaction: nobody needs to write them. */
  #drop({ xid }: TransactionInProgress): void {
    const isOf = ({ batch }: { readonly batch: ChangeBatch }) => batch.inProgress?.xid === xid;
    for (const { batch } of this.#queued.filter(isOf)) this.#uncount(batch);
    this.#queued = this.#queued.filter((queued) => !isOf(queued));
  }

  /** So much of one transaction has arrived that it is handed out in pieces, before its end. */
  get #isPiece(): boolean {
    const { count, bytes } = this.#builder;
    return count > 0 && (bytes >= this.bounds.pieceBytes || this.isFull);
  }

  /** A transaction has ended whose last piece is handed out: the sink has to learn of the end to commit. */
  get #isEndPending(): boolean {
    return this.#isMidTransaction && !this.#builder.inTransaction;
  }

  #queueActive(): void {
    const transaction = this.#inProgress;
    if (transaction === null || this.decoder.activeBuilder !== transaction.builder) this.#queueCommitted();
    else if (transaction.builder.count > 0) {
      this.#queueBefore();
      const { relations } = transaction.builder;
      this.#queue(this.#takePart(transaction), relations);
    }
  }

  /**
   * Queues everything that was committed before a part that is queued next, and ends a transaction that was handed out
   * in pieces.
   */
  #queueBefore(): void {
    this.#queueCommitted();
    const last = this.#queued.findLast(({ batch }) => !batch.inProgress)?.batch;
    const isMidTransaction = last ? last.endsInTransaction : this.#isMidTransaction;
    if (isMidTransaction && !this.#builder.inTransaction)
      this.#queue(emptyBatch(this.form, this.#builder.resumeLsn), []);
  }

  /** Queues the batch that is being filled: complete transactions, then a piece of the open one. */
  #queueCommitted(): void {
    if (this.#builder.completeCount > 0) this.#queueTaken((builder) => builder.takeComplete());
    if (this.#builder.count > 0) this.#queueTaken((builder) => builder.takeAll());
  }

  #queueTaken(take: (builder: BatchBuilder) => { batch: ChangeBatch; rest: BatchBuilder }): void {
    const { relations } = this.#builder;
    this.#queue(this.#continueWith(take(this.#builder)), relations);
  }

  #queue(batch: ChangeBatch, relations: Relation[]): void {
    this.#queued.push({ batch, relations });
    this.#queuedBytes += retainedBytes(batch);
    this.#queuedRows += batch.count;
  }

  #uncount(batch: ChangeBatch): void {
    this.#queuedBytes -= retainedBytes(batch);
    this.#queuedRows -= batch.count;
  }

  #continueWith(taken: { batch: ChangeBatch; rest: BatchBuilder }): ChangeBatch {
    this.decoder.continueWith(taken.rest);
    return taken.batch;
  }
}
