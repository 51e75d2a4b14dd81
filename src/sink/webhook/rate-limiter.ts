// Spreads requests evenly under the two rate limits, which all requests of a connector share. The caller waits.

export interface RateLimits {
  /** 0: unlimited. */
  readonly maxRequestsPerSecond: number;
  /** Bytes as they are sent over the wire; 0: unlimited. */
  readonly maxBytesPerSecond: number;
}

/** Gives out the times at which requests may start, in the order of the calls. */
export class RateLimiter {
  #nextRequestMs = 0;
  #nextByteMs = 0;

  constructor(private readonly limits: RateLimits) {}

  /** Returns how long a request of `bytes` has to wait. `nowMs` must not go back. */
  delayMs(bytes: number, nowMs: number): number {
    const { maxRequestsPerSecond, maxBytesPerSecond } = this.limits;
    const start = Math.max(nowMs, this.#nextRequestMs, this.#nextByteMs);
    if (maxRequestsPerSecond > 0) this.#nextRequestMs = start + 1000 / maxRequestsPerSecond;
    if (maxBytesPerSecond > 0) this.#nextByteMs = start + (bytes * 1000) / maxBytesPerSecond;
    return start - nowMs;
  }
}
