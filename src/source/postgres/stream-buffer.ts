// What a stream holds between its socket and its reader: the batch that is being filled, and those that a large message has
// closed. A large message makes a batch of its own, in the memory that it came in: it is neither copied, nor held by others.

import type { BatchBuilder } from "../../change/batch-builder.ts";
import { emptyBatch } from "../../change/batch-builder.ts";
import type { ChangeBatch, TupleForm } from "../../change/change-batch.ts";
import type { Relation } from "../../change/relation.ts";
import { backlogPace } from "./feedback.ts";
import type { PgoutputDecoder } from "./pgoutput-decoder.ts";

export interface StreamBounds {
  /** The socket is paused while more than this waits to be taken. */
  readonly maxBufferedBytes: number;
  readonly maxBufferedRows: number;
  /** A transaction that is larger is handed out in pieces of about this size. */
  readonly pieceBytes: number;
}

export class StreamBuffer {
  readonly #closed: { readonly batch: ChangeBatch; readonly relations: Relation[] }[] = [];
  #closedBytes = 0;
  /** Of a large batch that the reader has: there is no memory for another one beside it. */
  #bytesOut = 0;
  /** What was handed out last ends within a transaction. */
  #owesEnd = false;

  constructor(
    private readonly decoder: PgoutputDecoder,
    private readonly form: TupleForm,
    private readonly bounds: StreamBounds,
  ) {}

  /** No change waits. */
  get isEmpty(): boolean {
    return this.#builder.count === 0 && this.#closed.length === 0;
  }

  get isFull(): boolean {
    const { bytes, count } = this.#builder;
    const { maxBufferedBytes, maxBufferedRows } = this.bounds;
    return bytes + this.#closedBytes + this.#bytesOut >= maxBufferedBytes || count >= maxBufferedRows;
  }

  /** It is worth a transaction at the sink. */
  get isAmple(): boolean {
    return this.#closed.length > 0 || this.#builder.bytes >= backlogPace.enoughBytes || this.isFull;
  }

  get isDeliverable(): boolean {
    return this.#closed.length > 0 || this.#builder.wholeCount > 0 || this.#isPiece || this.#isOwedEnd;
  }

  /** The lists of relations of all that waits, in which one may be replaced. */
  get relationLists(): Relation[][] {
    return [this.#builder.relations, ...this.#closed.map(({ relations }) => relations)];
  }

  /** Takes a message in memory that is its own, `bytes[at, end)`. */
  receiveLarge(bytes: Buffer, at: number, end: number): void {
    this.#close();
    this.#builder.adopt(new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length));
    this.decoder.decode(bytes, at, end);
    if (this.#builder.count > 0) this.#close();
    else this.#builder.adopt(new Uint8Array());
  }

  /** The reader is done with what it took last. */
  takeBack(): void {
    this.#bytesOut = 0;
  }

  take(): ChangeBatch | null {
    const batch = this.#next();
    if (batch === null) return null;
    this.#owesEnd = batch.endsInTransaction;
    const { byteLength } = batch.arena;
    this.#bytesOut = byteLength > this.bounds.maxBufferedBytes ? byteLength : 0;
    return batch;
  }

  get #builder(): BatchBuilder {
    return this.decoder.builder;
  }

  #next(): ChangeBatch | null {
    const closed = this.#closed.shift();
    if (closed) {
      this.#closedBytes -= closed.batch.arena.byteLength;
      return closed.batch;
    }
    if (this.#builder.wholeCount > 0) return this.#continueWith(this.#builder.takeWhole());
    if (this.#isPiece) return this.#continueWith(this.#builder.takeAll());
    return this.#isOwedEnd ? emptyBatch(this.form, this.#builder.resumeLsn) : null;
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

  /** Closes the batch that is being filled, as one of whole transactions and a piece. */
  #close(): void {
    if (this.#builder.wholeCount > 0) this.#keep((builder) => builder.takeWhole());
    if (this.#builder.count > 0) this.#keep((builder) => builder.takeAll());
  }

  #keep(take: (builder: BatchBuilder) => { batch: ChangeBatch; rest: BatchBuilder }): void {
    const { relations } = this.#builder;
    const batch = this.#continueWith(take(this.#builder));
    this.#closed.push({ batch, relations });
    this.#closedBytes += batch.arena.byteLength;
  }

  #continueWith(taken: { batch: ChangeBatch; rest: BatchBuilder }): ChangeBatch {
    this.decoder.continueWith(taken.rest);
    return taken.batch;
  }
}
