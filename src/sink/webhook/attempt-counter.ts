// Counts requests by their results, and the bytes that were sent.

export interface AttemptCounts {
  /** Answered with 2xx. */
  readonly requests: number;
  /** By status, or by the system's error code where there was no answer. */
  readonly results: Readonly<Record<string, number>>;
  /** Of bodies, as they were sent over the wire. */
  readonly sentBytes: number;
}

export class AttemptCounter {
  count = 0;
  #sentBytes = 0;
  readonly #results = new Map<string, number>();

  add(result: string, bytes: number): void {
    this.count++;
    this.#sentBytes += bytes;
    this.#results.set(result, (this.#results.get(result) ?? 0) + 1);
  }

  counts(): AttemptCounts {
    let requests = 0;
    for (const [result, count] of this.#results) if (result.startsWith("2")) requests += count;
    return { requests, results: Object.fromEntries(this.#results), sentBytes: this.#sentBytes };
  }
}
