// When to leave the socket of a stream alone for a moment, and for how long. A walsender sends each message by itself: a reader that
// waits for the next one is woken by each, which costs both sides more than the message does. While it rests, the kernel gathers
// them. Pure: what it is told decides.

/** A chunk below this holds a message or a few: the reader is as fast as the sender, and is woken for each. */
const fewBytes = 16 * 1024;
/** Chunks follow upon each other when no more than this is between them. */
const closeMs = 0.25;
/** So many small chunks in a row are a stream; fewer may be a transaction whose reader is waiting for it. */
const streamOf = 8;
/** So many are enough while the stream is a broad one. */
const streamAgain = 2;
/** What the kernel surely holds for a reader that rests; it holds more for one that has been seen to take more. */
const leastHeldBytes = 64 * 1024;
/** A stream is a broad one from here on; what comes more slowly is looked at each millisecond. */
const broadBytesPerMs = 4 * 1024;
/** A rest that brings this part of what the kernel holds may have kept the sender waiting. */
const amplePart = 0.75;
/** For so many chunks there is no other rest then. */
const readsAfterAmple = 8;
const shortestMs = 1;
/**
 * What is sent into an open window is a packet for each message, and only what comes behind a full one is gathered: a rest is to bring some
 * windows, and by far less than the kernels of both sides hold, as one that holds up its sender looks like a slow stream.
 */
const wantedBytes = 384 * 1024;
/**
 * A walsender reads a transaction to its end and then sends it: rests that are shorter than such a round fall into its silence and
 * bring nothing. Longer ones would be felt by who waits for a change.
 */
const longestMs = 24;

export class Gathering {
  /** Small chunks that came one close upon the other. */
  #inARow = 0;
  #neededInARow = streamOf;
  #readsToGo = 0;
  #readAt = 0;
  #heldBytes = leastHeldBytes;
  #bytesSinceRest = 0;
  #restedAt = 0;
  #lastMs = shortestMs;

  /** How long to rest, once a chunk of `bytes` has been dealt with; 0: not at all. `nowMs`: by any clock that only goes forward. */
  restMs(bytes: number, nowMs: number): number {
    const isClose = nowMs - this.#readAt <= closeMs;
    this.#readAt = nowMs;
    this.#bytesSinceRest += bytes;
    if (this.#readsToGo > 0) this.#readsToGo--;
    this.#inARow = bytes < fewBytes && isClose ? this.#inARow + 1 : 0;
    this.#watchForAmple(bytes);
    if (this.#inARow < this.#neededInARow || this.#readsToGo > 0) return 0;
    return this.#rest(nowMs);
  }

  #rest(nowMs: number): number {
    const bytesPerMs = this.#bytesSinceRest / (nowMs - this.#restedAt);
    const isBroad = this.#bytesSinceRest >= fewBytes && bytesPerMs >= broadBytesPerMs;
    this.#neededInARow = isBroad ? streamAgain : streamOf;
    this.#bytesSinceRest = 0;
    this.#restedAt = nowMs;
    this.#inARow = 0;
    this.#lastMs = isBroad ? this.#broadMs(bytesPerMs) : shortestMs;
    return this.#lastMs;
  }

  /** Grows step by step: the end of a transaction does not wait for longer than it has taken to come so far. */
  #broadMs(bytesPerMs: number): number {
    return Math.max(shortestMs, Math.min(2 * this.#lastMs, longestMs, wantedBytes / bytesPerMs));
  }

  #watchForAmple(bytes: number): void {
    if (bytes >= this.#heldBytes * amplePart) this.#readsToGo = readsAfterAmple;
    this.#heldBytes = Math.max(this.#heldBytes, bytes);
  }
}
