// Waits for a condition with a bound: the one way in which tests wait.

export interface WaitOptions {
  readonly timeoutMs?: number;
  readonly intervalMs?: number;
}

/**
 * Resolves with the first value of `probe` that is not false, null or undefined. A probe that throws counts as
 * "not yet". Throws after `timeoutMs` (30 s) with `what` and the last thing that was seen.
 */
export async function waitFor<Value>(
  what: string,
  probe: () => Value | Promise<Value>,
  { timeoutMs = 30_000, intervalMs = 25 }: WaitOptions = {},
): Promise<Exclude<Value, false | null | undefined>> {
  const deadline = performance.now() + timeoutMs;
  let last: unknown;
  while (true) {
    try {
      const value = await probe();
      if (value !== false && value !== null && value !== undefined) {
        return value as Exclude<Value, false | null | undefined>;
      }
      last = value;
    } catch (error) {
      last = error;
    }
    if (performance.now() > deadline) {
      throw new Error(`not within ${timeoutMs} ms: ${what} (last: ${String(last)})`);
    }
    await Bun.sleep(intervalMs);
  }
}
