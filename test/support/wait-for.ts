// Waits for a condition with a bound: the one way in which tests wait.

import { type NotYet, pollUntil } from "../../src/demo/poll-until.ts";

export interface WaitOptions {
  readonly timeoutMs?: number;
  readonly intervalMs?: number;
}

/**
 * Resolves with the first value of `probe` that is not false, null or undefined. A probe that throws counts as
 * "not yet". Throws after `timeoutMs` (30 s) with `what` and the last error that was seen.
 */
export async function waitFor<Value>(
  what: string,
  probe: () => Value | Promise<Value>,
  { timeoutMs = 30_000, intervalMs = 25 }: WaitOptions = {},
): Promise<Exclude<Value, NotYet>> {
  let last: unknown = null;
  const forgiving = async (): Promise<Value | null> => {
    try {
      return await probe();
    } catch (error) {
      last = error;
      return null;
    }
  };
  try {
    const value = await pollUntil(what, forgiving, { timeoutMs, intervalMs });
    return value as Exclude<Value, NotYet>;
  } catch (error) {
    throw last === null ? error : new Error(`${String(error)} (last: ${String(last)})`, { cause: last });
  }
}
