// A thread's sign of life, and how late its event loop has been at most: what is computed in one go delays all else in its thread.

import { sharedInterval } from "./shared-interval.ts";

/** Of a pulse. */
const looks = 5;
/** So often a thread tells. */
export const pulseMs = 5_000;

/** Calls `tell` every `everyMs` with the longest delay since the last call, in milliseconds, until it is disposed of. */
export function threadPulse(
  tell: (loopDelayMs: number) => void,
  monotonic: () => number,
  everyMs = pulseMs,
): Disposable {
  const lookEveryMs = everyMs / looks;
  let expectedAt = monotonic() + lookEveryMs;
  let toldAt = monotonic();
  let worst = 0;
  return sharedInterval(lookEveryMs, () => {
    const now = monotonic();
    worst = Math.max(worst, now - expectedAt);
    expectedAt = now + lookEveryMs;
    if (now - toldAt < everyMs - lookEveryMs / 2) return;
    tell(worst);
    toldAt = now;
    worst = 0;
  });
}
