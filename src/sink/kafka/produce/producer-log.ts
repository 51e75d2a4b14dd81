// Messages on their way to the brokers. They gather by partition, and go out in rounds: a round is all that has gathered, and the next one
// begins when every broker has taken it. So there is one batch of a partition under way, which can be sent again without changing the
// order. With transactions a commit is the end of a round.

import { Waiters } from "../../../concurrency/waiters.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { ByteWriter } from "../../format/values/byte-writer.ts";
import { RecordBatch } from "../client/record-batch.ts";
import type { MessageRow } from "../parking/refused-records.ts";
import type { PartitionQueue, Round } from "./round.ts";

export interface LogOptions {
  /** Of a partition's batch, uncompressed; a single message above it goes alone. */
  readonly batchBytes: number;
  /** Of all messages that no broker has taken yet. */
  readonly maxBytes: number;
  readonly maxMessages: number;
}

/** What gathers at first for a transaction: a network of 2 Mbit/s takes a second for it. */
const leastBytes = 256 * 1024;
/** What may gather is doubled once half of it was sent within this share of a transaction's timeout: all of the double takes a quarter then. */
const growWithin = 1 / 16;
const spareBuffers = 8;
/** Of a batch's buffer, which grows: where thousands of partitions have a message each, that is what they hold. */
const firstBatchBytes = 512;
const spareBufferBytes = 4 * 1024 * 1024;

export class ProducerLog {
  readonly #dirty = new Set<PartitionQueue>();
  readonly #sealed: Round[] = [];
  readonly #spare: ByteWriter[] = [];
  /** Of what has gathered. */
  #bytes = 0;
  #messages = 0;
  /** With what is under way. */
  #allBytes = 0;
  #allMessages = 0;
  #after: Promise<unknown> | null = null;
  #isRunning = false;
  #current: Round | null = null;
  #failure: MillraceError | null = null;
  readonly #waiters = new Waiters();
  #mostBytes: number;
  readonly #roundMessages: number;
  #batchBytes: number;

  constructor(
    private readonly options: LogOptions,
    private readonly sender: { send(round: Round): Promise<void> },
    private readonly failed: (error: MillraceError) => void,
    /** Null: without transactions. One has to be sent in its time, so little gathers until it is known how fast that goes. */
    private readonly pace: { readonly timeoutMs: number; readonly monotonic: () => number } | null = null,
  ) {
    this.#mostBytes = pace ? Math.min(leastBytes, options.maxBytes) : options.maxBytes;
    this.#batchBytes = options.batchBytes;
    this.#roundMessages = options.maxMessages / 2;
  }

  get isOver(): boolean {
    return this.#failure !== null;
  }

  /** Of all messages that no broker has taken yet, by now. */
  get mostBytes(): number {
    return this.#mostBytes;
  }

  get hasCapacity(): boolean {
    return this.#allBytes < this.#mostBytes && this.#allMessages < this.options.maxMessages;
  }

  /** A broker takes less than is configured. */
  limitBatches(bytes: number): void {
    this.#batchBytes = Math.max(1, Math.min(this.#batchBytes, bytes));
  }

  /** Resolves when a quarter of the bounds is free, or when nothing is sent any more. */
  async untilCapacity(): Promise<void> {
    const { maxMessages } = this.options;
    const isFull = () => this.#allBytes > this.#mostBytes * 0.75 || this.#allMessages > maxMessages * 0.75;
    while (isFull() && !this.isOver) {
      this.#run();
      await this.#waiters.change();
    }
  }

  /** Adds a message. Null: a key or a value that is null. `row`: is told where brokers refuse the message. */
  add(
    queue: PartitionQueue,
    key: ByteWriter | null,
    value: ByteWriter | null,
    headers: ByteWriter,
    row: MessageRow | null = null,
  ): void {
    let batch = queue.open;
    const bytes = (key?.length ?? 0) + (value?.length ?? 0) + headers.length;
    if (batch && batch.bytes + bytes > this.#batchBytes) {
      queue.full.push(batch);
      batch = null;
    }
    if (!batch) {
      batch = new RecordBatch(this.#spare.pop() ?? new ByteWriter(firstBatchBytes));
      queue.open = batch;
      this.#dirty.add(queue);
    }
    const before = batch.bytes;
    batch.add(key, value, headers, row);
    queue.added++;
    const added = batch.bytes - before;
    this.#bytes += added;
    this.#messages++;
    this.#allBytes += added;
    this.#allMessages++;
    if (this.#isEnough && !this.#isRunning) this.#run();
  }

  /** All that was added is sent now. Resolves when brokers have taken it; with `isCommit`, when the transaction is committed. */
  seal(isCommit = false): Promise<void> {
    const round = this.#take(isCommit);
    // Whoever asked may have left by then.
    round.done.promise.catch(() => undefined);
    if (this.#failure) round.done.reject(this.#failure);
    else this.#sealed.push(round);
    this.#run();
    return round.done.promise;
  }

  /** What is added from here on is sent once `ready` has resolved. */
  waitFor(ready: Promise<unknown>): void {
    this.seal();
    this.#after = this.#after ? Promise.all([this.#after, ready]) : ready;
    // It is the failure of the round that waits for it, which may be sent later.
    this.#after.catch(() => undefined);
  }

  /** Nothing is sent any more. */
  stop(failure: MillraceError): void {
    this.#failure ??= failure;
    for (const { done } of this.#sealed.splice(0)) done.reject(this.#failure);
    // Whoever waits for the one under way need not wait for its brokers.
    this.#current?.done.reject(this.#failure);
    this.#waiters.wake();
  }

  /** For a round that nobody asks for: half of what there is room for, at most. */
  get #isEnough(): boolean {
    const roundBytes = Math.min(this.options.batchBytes, this.#mostBytes / 2);
    return this.#bytes >= roundBytes || this.#messages >= this.#roundMessages;
  }

  #run(): void {
    if (this.#isRunning || this.isOver) return;
    this.#isRunning = true;
    void this.#rounds();
  }

  async #rounds(): Promise<void> {
    try {
      while (!this.isOver) {
        const round = this.#sealed.shift() ?? (this.#isEnough ? this.#take(false) : null);
        if (!round) return;
        await this.#round(round);
      }
    } finally {
      // At once: whoever heard that a round is over may seal the next.
      this.#isRunning = false;
    }
  }

  /** Never throws: a failure ends everything. */
  async #round(round: Round): Promise<void> {
    this.#current = round;
    round.done.promise.catch(() => undefined);
    try {
      await round.after;
      const begunMs = this.pace?.monotonic() ?? 0;
      await this.sender.send(round);
      if (this.pace) this.#grow(round.bytes, this.pace.monotonic() - begunMs, this.pace.timeoutMs);
      this.#release(round);
      round.done.resolve();
    } catch (error) {
      const failure =
        error instanceof MillraceError
          ? error
          : new MillraceError("internal", String(error), { cause: error });
      const isFirst = this.#failure === null;
      this.stop(failure);
      if (isFirst) this.failed(failure);
    } finally {
      this.#current = null;
    }
  }

  /** A round took so long. */
  #grow(bytes: number, ms: number, timeoutMs: number): void {
    if (bytes < this.#mostBytes / 2 || ms > timeoutMs * growWithin) return;
    this.#mostBytes = Math.min(this.options.maxBytes, this.#mostBytes * 2);
  }

  #take(isCommit: boolean): Round {
    const batches = new Map<PartitionQueue, RecordBatch[]>();
    for (const queue of this.#dirty) {
      batches.set(queue, queue.open ? [...queue.full, queue.open] : queue.full);
      queue.open = null;
      queue.full = [];
    }
    this.#dirty.clear();
    const round: Round = {
      batches,
      isCommit,
      after: this.#after,
      bytes: this.#bytes,
      messages: this.#messages,
      done: Promise.withResolvers<void>(),
    };
    this.#bytes = 0;
    this.#messages = 0;
    return round;
  }

  #release({ batches, bytes, messages, after }: Round): void {
    if (after === this.#after) this.#after = null;
    for (const ofQueue of batches.values()) {
      for (const batch of ofQueue) {
        const buffer = batch.release();
        if (this.#spare.length < spareBuffers && buffer.bytes.length <= spareBufferBytes)
          this.#spare.push(buffer);
      }
    }
    this.#allBytes -= bytes;
    this.#allMessages -= messages;
    this.#waiters.wake();
  }
}
