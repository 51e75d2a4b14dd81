// Where a transport that commits rows and record together may do so: at the end of a transaction of the source, and when every chunk of a
// copy that was begun is recorded. Otherwise rows would be committed that the record does not have, and come again after a restart. A
// transaction, or a chunk, that takes too long is committed in parts, each with the place in it.

import { Waiters } from "../../../concurrency/waiters.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

export interface CommitPointOptions {
  /** The stream is between two transactions, or a copy holds it. */
  readonly isBetween: () => boolean;
  /** Moves the checkpoint to where the stream is. */
  readonly settle: () => void;
  /** A commit is made after so long, wherever the stream is. */
  readonly withinMs: number;
  /** Asks for a commit. */
  readonly commit: () => void;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
}

export class CommitPoint {
  #chunks = 0;
  /** Since when a commit waits; null: none does. */
  #wantedMs: number | null = null;
  readonly #waiters = new Waiters();
  #isHurried = false;
  #isHeld = false;
  #isGivenUp = false;
  /** Chunks have been under way for so long that they are committed in parts. */
  #isForced = false;
  #longChunks: Timer | null = null;

  constructor(private readonly options: CommitPointOptions) {}

  /** A commit waits: the stream stops where it may be made, and no chunk begins. */
  get isWanted(): boolean {
    return this.#wantedMs !== null;
  }

  /** No chunk holds a commit up. */
  get isFree(): boolean {
    return this.#chunks === 0;
  }

  /** Something that is of no row was added: a commit is to be made soon. */
  ask(): void {
    this.options.commit();
  }

  /** A commit waits from here on, until `take`. Throws once none is to be made any more. */
  want(): void {
    this.#requireKept();
    this.#wantedMs ??= this.options.monotonic();
  }

  /** It may be made now. */
  get isHere(): boolean {
    return (
      this.#isOverdue || (this.#chunks === 0 && (this.#isHurried || this.#isHeld || this.options.isBetween()))
    );
  }

  /** Resolves when that may have changed. Throws once no commit is to be made any more. */
  async change(): Promise<void> {
    this.#requireKept();
    const overdue = setTimeout(() => this.wake(), this.#leftMs);
    await this.#waiters.change();
    clearTimeout(overdue);
  }

  /**
   * `isHeld`: a message is being handled that the stream waits for, and that may wait for a commit. So the commit does not wait for the end of a
   * transaction.
   */
  hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
    // A turn later: what needs no commit is done by then.
    if (isHeld) setImmediate(() => this.#isHeld && this.wake());
  }

  /** The stream does not go on, and what was added is to be durable: the beginning of a transaction is committed too. */
  hurry(): void {
    this.#isHurried = true;
    this.wake();
  }

  /** Nothing is added any more: a commit that waits is not made. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.#watchChunks();
    this.wake();
  }

  /** The commit is made now. */
  take(): void {
    this.options.settle();
    this.#wantedMs = null;
    this.#isHurried = false;
    this.#isForced = false;
    this.#watchChunks();
    this.wake();
  }

  /** A chunk's first row is added. Resolves when it may be. */
  async beginChunk(): Promise<void> {
    while (this.isWanted) await this.#waiters.change();
    this.#chunks++;
    if (this.#longChunks === null) this.#watchChunks();
  }

  /** The record has the chunk, or it is given up. The timer runs on: the chunk's rows are in a transaction that is open until the next commit. */
  endChunk(): void {
    this.#chunks--;
    this.wake();
  }

  /** Something has changed: the stream came to the end of a transaction, or is held. */
  wake(): void {
    this.#waiters.wake();
  }

  /** Asks for a commit once chunks have been under way for so long: nobody else may ask, and brokers abort a transaction that is open for too long. */
  #watchChunks(): void {
    if (this.#longChunks !== null) clearTimeout(this.#longChunks);
    this.#longChunks = null;
    if (this.#chunks === 0 || this.#isGivenUp) return;
    this.#longChunks = setTimeout(() => {
      this.#isForced = true;
      this.options.commit();
      this.wake();
    }, this.options.withinMs);
  }

  #requireKept(): void {
    if (this.#isGivenUp)
      throw new MillraceError("sink_connection_lost", "the sink is closed amid a transaction");
  }

  get #isOverdue(): boolean {
    if (this.#isForced) return true;
    return this.#wantedMs !== null && this.#leftMs === 0;
  }

  /** Until a commit that waits is overdue. */
  get #leftMs(): number {
    const { monotonic, withinMs } = this.options;
    const waitedMs = this.#wantedMs === null ? 0 : monotonic() - this.#wantedMs;
    return Math.max(0, withinMs - waitedMs);
  }
}
