// How many rows of a table's copy are on their way to the receiver: chunks that are copied side by side share the bound.

import { Waiters } from "../../../concurrency/waiters.ts";

/** Who waits is woken when this share is free, and not for each row. */
const freedShare = 0.25;

export class UndeliveredRows {
  /** Rows that are taken and not delivered. */
  #rows = 0;
  /** Requests on their way. */
  #requests = 0;
  #isClosed = false;
  readonly #waiters = new Waiters();

  /** `most` rows; infinite: no bound. */
  constructor(readonly most: number) {}

  /** Rows that may be taken now. */
  get left(): number {
    return this.most - this.#rows;
  }

  took(): void {
    this.#rows++;
  }

  sent(): void {
    this.#requests++;
  }

  delivered(rows: number): void {
    this.#requests--;
    this.#rows -= rows;
    this.#waiters.wake();
  }

  /** Nothing is delivered any more: nobody waits. */
  close(): void {
    this.#isClosed = true;
    this.#waiters.wake();
  }

  /** Waits where no more rows may be taken. A request holds no more rows than the bound: while there is no room, one is being delivered. */
  async untilCapacity(): Promise<void> {
    const enough = this.left > 0 ? 1 : this.most * freedShare;
    while (this.left < enough && this.#requests > 0 && !this.#isClosed) await this.#waiters.change();
  }
}
