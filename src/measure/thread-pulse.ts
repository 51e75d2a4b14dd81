// Reports that a thread is alive, and how late its event loop was at most: a long computation delays everything else in
// its thread.

import { sharedInterval } from "./shared-interval.ts";

/** Samples of the delay for each pulse. */
const samplesPerPulse = 5;
/** How often a thread reports. */
export const pulseMs = 5_000;

/**
 * Calls `report` every `everyMs` with the longest delay since the last call, in milliseconds, until it is disposed of.
 */
export function threadPulse(
  report: (loopDelayMs: number) => void,
  monotonic: () => number,
  everyMs = pulseMs,
): Disposable {
  const sampleEveryMs = everyMs / samplesPerPulse;
  let expectedAt = monotonic() + sampleEveryMs;
  let reportedAt = monotonic();
  let worst = 0;
  return sharedInterval(sampleEveryMs, () => {
    const now = monotonic();
    worst = Math.max(worst, now - expectedAt);
    expectedAt = now + sampleEveryMs;
    if (now - reportedAt < everyMs - sampleEveryMs / 2) return;
    report(worst);
    reportedAt = now;
    worst = 0;
  });
}
