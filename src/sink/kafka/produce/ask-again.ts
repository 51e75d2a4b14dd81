// Asks the same again while a broker is busy, away, or about to change.

import type { MillraceError } from "../../../errors/millrace-error.ts";

export interface Patience {
  /** How long one question may take, with all its repetitions. */
  readonly operationTimeoutMs: number;
  /** It is asked again. Null: it was answered. */
  readonly retrying: (attempt: number | null, reason: string) => void;
  readonly monotonic: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly signal: AbortSignal;
}

export const lostWaitMs = 100;
/** What passes sooner is not told. */
const tellAfterMs = 500;

/** `again`: prepares for the next try, and says how long to wait before it; null: there is none. Throws what `failure` makes of the error. */
export async function askAgain<A>(
  ask: () => Promise<A>,
  again: (error: unknown) => number | null,
  failure: (error: unknown) => MillraceError,
  { operationTimeoutMs, retrying, monotonic, sleep, signal }: Patience,
): Promise<A> {
  const begunMs = monotonic();
  let isTold = false;
  for (let attempt = 1; ; attempt++) {
    signal.throwIfAborted();
    try {
      const answer = await ask();
      if (isTold) retrying(null, "");
      return answer;
    } catch (error) {
      const tookMs = monotonic() - begunMs;
      const waitMs = again(error);
      if (waitMs === null || tookMs >= operationTimeoutMs) throw failure(error);
      isTold ||= tookMs >= tellAfterMs;
      if (isTold) retrying(attempt, failure(error).message);
      await sleep(isTold ? lostWaitMs : waitMs, signal);
    }
  }
}
