// The clock that leases are kept by: it is never set back, and it goes on while the machine sleeps, as the clock of the
// state's server does. `performance.now()` stands still in a sleep on Linux and on macOS.

import { openSync, readSync } from "node:fs";

/** Milliseconds since any moment. */
export type LeaseClock = () => number;

/** CLOCK_BOOTTIME where the system shows it (Linux), else monotonic and wall clock together. */
export function leaseClock(): LeaseClock {
  return uptimeClock("/proc/uptime") ?? sleepCountingClock(() => performance.now(), Date.now);
}

/**
 * The seconds in the first field of /proc/uptime, in steps of 10 ms; null: there is no such file. The file stays open, so that a reading
 * is one system call of about 1 µs. https://man7.org/linux/man-pages/man5/proc_uptime.5.html
 */
export function uptimeClock(path: string): LeaseClock | null {
  const text = Buffer.alloc(64);
  let file: number;
  try {
    file = openSync(path, "r");
  } catch {
    return null;
  }
  const read = () => {
    const length = readSync(file, text, 0, text.length, 0);
    return Math.round(Number.parseFloat(text.toString("latin1", 0, length)) * 1000);
  };
  return Number.isFinite(read()) ? read : null;
}

/** A slower advance of the wall clock against the monotonic one is jitter, or the correction of a clock. */
const sleepMs = 100;

/**
 * The monotonic clock, and what the wall clock went further at once: while the machine slept, the wall clock alone went on. A wall clock
 * that is set ahead counts as sleep too, which ends leases early, never late.
 */
export function sleepCountingClock(monotonic: () => number, wall: () => number): LeaseClock {
  let sleptMs = 0;
  let ahead = wall() - monotonic();
  return () => {
    const now = monotonic();
    const further = wall() - now - ahead;
    if (further >= sleepMs) sleptMs += further;
    // A wall clock that was set back must not hide the next sleep.
    if (further >= sleepMs || further < 0) ahead += further;
    return now + sleptMs;
  };
}
