// When to leave the socket of a stream alone for a moment. A walsender sends each message by itself: a reader that waits for the
// next one is woken by each, which costs both sides more than the message does. While it rests, the kernel gathers them.
// Pure: what it is told decides.

/** A chunk below this holds a message or a few: the reader is as fast as the sender, and is woken for each. */
const fewBytes = 16 * 1024;
/** Chunks follow upon each other when no more than this is between them. */
const closeMs = 0.25;
/** So many small chunks in a row are a stream; fewer may be a transaction whose reader is waiting for it. */
const streamOf = 8;
/** What the kernel surely holds for a reader that rests. Where a rest brings more, the sender had to wait. */
const ampleBytes = 64 * 1024;
/** For so many chunks there is no other rest then. */
const readsAfterAmple = 64;

/** What a rest brings may come in as many reads: what was on its way already by itself. */
const readsOfRest = 2;

export const restMs = 1;

export class Gathering {
  /** Small chunks that came one close upon the other. */
  #inARow = 0;
  #readsSinceRest = Number.POSITIVE_INFINITY;
  #readsToGo = 0;
  #readAt = 0;

  /** Whether to rest, once a chunk of `bytes` has been dealt with; `nowMs`: by any clock that only goes forward. */
  isRestDue(bytes: number, nowMs: number): boolean {
    const isClose = nowMs - this.#readAt <= closeMs;
    this.#readAt = nowMs;
    this.#readsSinceRest++;
    if (this.#readsToGo > 0) this.#readsToGo--;
    this.#inARow = this.#count(bytes, isClose);
    if (this.#inARow < streamOf || this.#readsToGo > 0) return false;
    this.#readsSinceRest = 0;
    this.#inARow = 0;
    return true;
  }

  #count(bytes: number, isClose: boolean): number {
    if (bytes < fewBytes) return isClose ? this.#inARow + 1 : 0;
    if (bytes >= ampleBytes) {
      this.#readsToGo = readsAfterAmple;
      return 0;
    }
    // A rest was worth it: the next may follow upon the first message that is read by itself again.
    return this.#readsSinceRest <= readsOfRest ? streamOf - 1 : 0;
  }
}
