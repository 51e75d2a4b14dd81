// Gathers receipts, and hands them over to be saved together with the record: what a save of the record covers has its receipts in the same
// save. Small saves share a batch, which is written again as it grows, so that a quiet connector does not leave a row for each request.

import { Waiters } from "../../../concurrency/waiters.ts";
import { batchSpanMs, type ReceiptBatch, type ReceiptBatches } from "../../../connector/receipts.ts";
import { keyFilter } from "./key-filter.ts";
import { OpenPiece } from "./open-piece.ts";
import type { Receipt } from "./receipt.ts";
import { decodeBody, framed } from "./receipt-body.ts";

export interface ReceiptBookOptions {
  /** In ms since 1970-01-01 UTC. */
  readonly nowMs: () => number;
  readonly newId: () => string;
  /** A receipt is saved after so long, though the record does not change. */
  readonly withinMs: number;
}

/** A batch of so many bytes does not grow any more. */
const fullBytes = 4 * 1024;
/** So many rows are saved at once, though the record does not change. */
const promptRows = 65_536;
/** While the state takes none, the stream stops at so many rows: memory is bounded. */
const mostRows = 1_000_000;
/** What a request takes in addition to its rows, in rows. */
const rowsOfRequest = 4;

interface Unsaved {
  readonly batch: ReceiptBatch;
  readonly rows: number;
  readonly pieces: readonly Uint8Array[];
}

export class ReceiptBook {
  /** Has the record saved, and resolves when that is durable; null: nothing has begun. */
  save: (() => Promise<void> | undefined) | null = null;
  readonly #piece = new OpenPiece();
  /** Of what is gathered, and of what is not saved. */
  #rows = 0;
  #unsavedRows = 0;
  #batch = new GrowingBatch();
  /** Handed over, and not known to be saved. */
  readonly #unsaved = new Map<string, Unsaved>();
  #timer: Timer | null = null;
  #isClosed = false;
  readonly #waiters = new Waiters();

  constructor(private readonly options: ReceiptBookOptions) {}

  get hasSpace(): boolean {
    return this.#rows + this.#unsavedRows < mostRows;
  }

  /** Resolves when there is space, or when none will be needed. */
  async untilSpace(): Promise<void> {
    while (!this.hasSpace && this.save) await this.#waiters.change();
  }

  /** Oldest first. */
  get unsaved(): readonly Receipt[] {
    const pieces = [...this.#unsaved.values()].flatMap(({ pieces }) => pieces);
    if (this.#piece.receipts > 0) pieces.push(framed(this.#piece.bytes()));
    return pieces.flatMap((piece) => [...decodeBody(piece)]);
  }

  add(receipt: Receipt): void {
    this.#piece.add(receipt);
    this.#rows += receipt.rows.count + rowsOfRequest;
    if (this.#rows >= promptRows) this.hurry();
    else this.#timer ??= setTimeout(() => this.#onTime(), this.options.withinMs);
  }

  /** What was added is saved now. Who reports progress says what goes wrong with a save. */
  hurry(): void {
    this.untilSaved().catch(() => undefined);
  }

  /** Resolves when what was added is durable, or at once where nothing has begun. Throws what the save throws. */
  async untilSaved(): Promise<void> {
    if (this.#isClosed) throw new Error("nothing more is saved");
    if (!this.save) return;
    this.#clearTimer();
    await this.save();
  }

  /** What the save that begins now has to store. It is handed over again until `saved`. */
  take(): ReceiptBatches {
    this.#clearTimer();
    if (this.#piece.receipts > 0) this.#gather();
    return new Map([...this.#unsaved].map(([id, { batch }]) => [id, batch]));
  }

  saved(batches: ReceiptBatches): void {
    for (const [id, batch] of batches) {
      const known = this.#unsaved.get(id);
      if (!known) continue;
      this.#unsavedRows -= known.batch === batch ? known.rows : 0;
      if (known.batch === batch) this.#unsaved.delete(id);
    }
    this.#waiters.wake();
  }

  /** Nothing more is saved. */
  close(): void {
    this.#clearTimer();
    this.save = null;
    this.#isClosed = true;
    this.#waiters.wake();
  }

  #gather(): void {
    const nowMs = this.options.nowMs();
    if (this.#batch.beganAtMs !== null && nowMs - this.#batch.beganAtMs >= batchSpanMs)
      this.#batch = new GrowingBatch();
    const batch = this.#batch;
    batch.id ??= this.options.newId();
    const { id } = batch;
    batch.beganAtMs ??= nowMs;
    const piece = framed(this.#piece.bytes());
    batch.add(piece, this.#piece.filterKeys(), this.#piece.receipts);
    this.#piece.clear();
    const before = this.#unsaved.get(id);
    this.#unsaved.set(id, {
      batch: batch.stored(id, batch.beganAtMs),
      rows: (before?.rows ?? 0) + this.#rows,
      pieces: [...(before?.pieces ?? []), piece],
    });
    this.#unsavedRows += this.#rows;
    this.#rows = 0;
    if (batch.bytes >= fullBytes) this.#batch = new GrowingBatch();
  }

  #onTime(): void {
    this.#timer = null;
    this.hurry();
  }

  #clearTimer(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }
}

class GrowingBatch {
  id: string | null = null;
  beganAtMs: number | null = null;
  #body = new Uint8Array();
  #keys = new Uint32Array();
  #requests = 0;

  get bytes(): number {
    return this.#body.length;
  }

  add(piece: Uint8Array, keys: Uint32Array, requests: number): void {
    const body = new Uint8Array(this.#body.length + piece.length);
    body.set(this.#body);
    body.set(piece, this.#body.length);
    this.#body = body;
    const allKeys = new Uint32Array(this.#keys.length + keys.length);
    allKeys.set(this.#keys);
    allKeys.set(keys, this.#keys.length);
    this.#keys = allKeys;
    this.#requests += requests;
  }

  stored(id: string, beganAtMs: number): ReceiptBatch {
    return { id, beganAtMs, requests: this.#requests, body: this.#body, filter: keyFilter(this.#keys) };
  }
}
