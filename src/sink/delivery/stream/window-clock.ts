// When time has something to do with the stream's windows: it ends the open one, and now and then moves the checkpoint over
// what held nothing for the sink. The windows themselves are in stream-windows.ts.

import type { StreamWindows } from "./stream-windows.ts";

type TimedWindows = Pick<StreamWindows, "openedMs" | "end" | "pass" | "notedEnds">;

/** A window that time should have ended waits so many intervals while the stream brings more. */
const busyIntervals = 10;
/** So many ends of windows are noted while the checkpoint stays before a copy: from there on windows are as long as if more came. */
const manyEnds = 1_000;
/** How often the checkpoint is moved over what holds nothing for the sink. */
const passIntervalMs = 1000;

export class WindowClock {
  #nextPassMs = 0;

  constructor(
    private readonly flushIntervalMs: number,
    /** Milliseconds of a clock that never goes back. */
    private readonly monotonic: () => number,
  ) {}

  /** Milliseconds until something is to be done though nothing comes. */
  waitMs(windows: TimedWindows): number {
    const { openedMs } = windows;
    const intervals = windows.notedEnds > manyEnds ? busyIntervals : 1;
    const dueMs = openedMs === null ? this.#nextPassMs : openedMs + this.flushIntervalMs * intervals;
    return Math.max(0, dueMs - this.monotonic());
  }

  /** Does what is due. `isIdle`: the stream has brought nothing more by now. */
  keep(windows: TimedWindows, isIdle: boolean): void {
    const now = this.monotonic();
    const { openedMs, notedEnds } = windows;
    const patienceMs = this.flushIntervalMs * (isIdle && notedEnds <= manyEnds ? 1 : busyIntervals);
    if (openedMs !== null && now - openedMs >= patienceMs) windows.end();
    if (now < this.#nextPassMs) return;
    this.#nextPassMs = now + passIntervalMs;
    windows.pass();
  }
}
