// Decides what time does to the stream's windows: it ends the open one, and moves the checkpoint past what held nothing for the sink.

import type { StreamWindows } from "./stream-windows.ts";

type TimedWindows = Pick<StreamWindows, "openedMs" | "end" | "pass" | "recordedEnds">;

/** While the stream brings more, a window stays open for so many intervals. */
const busyIntervals = 10;
/** With more recorded ends than this, windows stay open as long as if the stream brought more; with twice as many, for twice as long: the record stays small. */
const manyEnds = 1_000;
/** How often the checkpoint is moved past what holds nothing for the sink. */
const passIntervalMs = 1000;

export class WindowClock {
  #nextPassMs = 0;

  constructor(
    private readonly flushIntervalMs: number,
    /** Milliseconds of a clock that never goes back. */
    private readonly monotonic: () => number,
    /** As of a transport. */
    private readonly commitWithinMs: number | null = null,
  ) {}

  /** Milliseconds until something is to be done, even where nothing comes. */
  waitMs(windows: TimedWindows): number {
    const { openedMs } = windows;
    const dueMs = openedMs === null ? this.#nextPassMs : openedMs + this.#patienceMs(windows, true);
    return Math.max(0, dueMs - this.monotonic());
  }

  /** Does what is due. `isIdle`: the stream has brought nothing more by now. */
  keep(windows: TimedWindows, isIdle: boolean): void {
    const now = this.monotonic();
    const { openedMs } = windows;
    if (openedMs !== null && now - openedMs >= this.#patienceMs(windows, isIdle)) windows.end();
    if (now < this.#nextPassMs) return;
    this.#nextPassMs = now + passIntervalMs;
    windows.pass();
  }

  /** Where it is committed, the transaction may have begun with the window, and the commit may have to wait. */
  #patienceMs({ recordedEnds }: TimedWindows, isIdle: boolean): number {
    const least = isIdle && recordedEnds <= manyEnds ? 1 : busyIntervals;
    const intervals = least * Math.max(1, recordedEnds / manyEnds);
    const patienceMs = this.flushIntervalMs * intervals;
    return this.commitWithinMs === null ? patienceMs : Math.min(patienceMs, this.commitWithinMs / 2);
  }
}
