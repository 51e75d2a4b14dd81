// Polls until a condition holds, with a timeout and a signal.

export interface PollOptions {
  readonly timeoutMs: number;
  readonly intervalMs: number;
  readonly signal?: AbortSignal;
}

/** What a probe returns while its condition does not hold. */
export type NotYet = false | null | undefined;

/**
 * Resolves with the first value of `probe` that is not false, null or undefined. Throws what the probe throws,
 * `signal.reason`, or after `timeoutMs` an error that names `what`.
 */
export async function pollUntil<Value>(
  what: string,
  probe: () => Value | Promise<Value>,
  { timeoutMs, intervalMs, signal }: PollOptions,
): Promise<Exclude<Value, NotYet>> {
  const deadline = performance.now() + timeoutMs;
  while (true) {
    signal?.throwIfAborted();
    const askedAt = performance.now();
    const value = await probe();
    if (value !== false && value !== null && value !== undefined) return value as Exclude<Value, NotYet>;
    if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    // A probe that takes long works half of the time at most.
    const tookMs = performance.now() - askedAt;
    await Bun.sleep(Math.min(Math.max(intervalMs, tookMs), 10 * intervalMs));
  }
}
