// Decides when to pause reading a stream's socket for a moment, and for how long. A walsender sends each message by
// itself, and a reader that waits for the next one is woken for each: that costs both sides more than the message does.
// During a pause the kernel coalesces messages, as interrupt coalescing does for packets. Pure.

/** A smaller chunk holds a message or a few: the reader is as fast as the sender, and is woken for each. */
const smallChunkBytes = 16 * 1024;
/** Chunks are consecutive when no more time than this is between them. */
const consecutiveMs = 0.25;
/** So many small consecutive chunks are a stream; fewer may be a transaction that somebody is waiting for. */
const chunksOfStream = 8;
/** So many are enough while the stream is fast. */
const chunksOfFastStream = 2;
/** What the kernel's socket buffers hold at least. A larger chunk shows that they hold more. */
const minKernelBytes = 64 * 1024;
/** A stream of this rate is fast. A slower one is paused for a millisecond at a time. */
const fastBytesPerMs = 4 * 1024;
/** A pause that fills the kernel's buffers to this part may have blocked the sender. */
const nearlyFullPart = 0.75;
/** So many chunks are then read without a pause. */
const chunksAfterNearlyFull = 8;
const shortestMs = 1;
/**
 * While the TCP window is open, each message goes out as a packet of its own; only behind a full window do messages
 * coalesce. So a pause should collect several windows. It should stay far below the kernel buffers of both sides,
 * because a sender that is blocked looks like a slow stream.
 */
const wantedBytes = 384 * 1024;
/**
 * A walsender reads a transaction completely, then sends it. A pause that is shorter than this cycle may collect
 * nothing. A longer one would be noticed by whoever waits for a change.
 */
const longestMs = 24;

export class ReadCoalescer {
  /** Small consecutive chunks so far. */
  #consecutive = 0;
  #neededConsecutive = chunksOfStream;
  #chunksWithoutPause = 0;
  #readAt = 0;
  #kernelBytes = minKernelBytes;
  #bytesSincePause = 0;
  #pausedAt = 0;
  #lastMs = shortestMs;

  /** How long to pause after a chunk of `bytes` has been handled; 0: not at all. `nowMs`: a monotonic clock. */
  pauseMs(bytes: number, nowMs: number): number {
    const isConsecutive = nowMs - this.#readAt <= consecutiveMs;
    this.#readAt = nowMs;
    this.#bytesSincePause += bytes;
    if (this.#chunksWithoutPause > 0) this.#chunksWithoutPause--;
    this.#consecutive = bytes < smallChunkBytes && isConsecutive ? this.#consecutive + 1 : 0;
    this.#detectNearlyFull(bytes);
    if (this.#consecutive < this.#neededConsecutive || this.#chunksWithoutPause > 0) return 0;
    return this.#pause(nowMs);
  }

  #pause(nowMs: number): number {
    const bytesPerMs = this.#bytesSincePause / (nowMs - this.#pausedAt);
    const isFast = this.#bytesSincePause >= smallChunkBytes && bytesPerMs >= fastBytesPerMs;
    this.#neededConsecutive = isFast ? chunksOfFastStream : chunksOfStream;
    this.#bytesSincePause = 0;
    this.#pausedAt = nowMs;
    this.#consecutive = 0;
    this.#lastMs = isFast ? this.#fastPauseMs(bytesPerMs) : shortestMs;
    return this.#lastMs;
  }

  /** Grows step by step, so that the end of a transaction waits no longer than the transaction has taken so far. */
  #fastPauseMs(bytesPerMs: number): number {
    return Math.max(shortestMs, Math.min(2 * this.#lastMs, longestMs, wantedBytes / bytesPerMs));
  }

  #detectNearlyFull(bytes: number): void {
    if (bytes >= this.#kernelBytes * nearlyFullPart) this.#chunksWithoutPause = chunksAfterNearlyFull;
    this.#kernelBytes = Math.max(this.#kernelBytes, bytes);
  }
}
