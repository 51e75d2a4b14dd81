// Measures a process's usage between calls.

import { readUsage, resetPeak, type Usage } from "./process-usage.ts";

export class UsageMeter {
  #cpuBefore = 0;

  /** The usage since the last call. Null if the process or /proc does not exist. */
  read(pid: number | undefined): Usage | null {
    const now = pid === undefined ? null : readUsage(pid);
    if (pid === undefined || now === null) return null;
    const cpuSeconds = now.cpuSeconds - this.#cpuBefore;
    this.#cpuBefore = now.cpuSeconds;
    resetPeak(pid);
    return { cpuSeconds, peakBytes: now.peakBytes };
  }
}
