// The use of one process, from call to call.

import { readUsage, resetPeak, type Usage } from "./process-usage.ts";

export class UsageMeter {
  #cpuBefore = 0;

  /** Since the last call; null where it cannot be told. */
  read(pid: number | undefined): Usage | null {
    const now = pid === undefined ? null : readUsage(pid);
    if (pid === undefined || now === null) return null;
    const cpuSeconds = now.cpuSeconds - this.#cpuBefore;
    this.#cpuBefore = now.cpuSeconds;
    resetPeak(pid);
    return { cpuSeconds, peakBytes: now.peakBytes };
  }
}
