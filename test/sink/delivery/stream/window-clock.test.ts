// When time ends a window.

import { expect, test } from "bun:test";
import { WindowClock } from "../../../../src/sink/delivery/stream/window-clock.ts";

/** After how many ms a window of a stream ends, and for how long the clock says it waits. */
function endOf(flushIntervalMs: number, isIdle: boolean, commitWithinMs: number | null, recordedEnds = 0) {
  let nowMs = 0;
  let endedMs: number | null = null;
  const clock = new WindowClock(flushIntervalMs, () => nowMs, commitWithinMs);
  const end = () => {
    endedMs = nowMs;
  };
  const windows = { openedMs: 0, recordedEnds, end, pass: () => {} };
  const waitMs = clock.waitMs(windows);
  for (; endedMs === null; nowMs += 10) clock.keep(windows, isIdle);
  return { endedMs: Number(endedMs), waitMs };
}

test("a window ends after the interval, and after ten where the stream brings more", () => {
  expect(endOf(100, true, null)).toEqual({ endedMs: 100, waitMs: 100 });
  expect(endOf(100, false, null).endedMs).toBe(1_000);
  expect(endOf(120_000, true, null).endedMs).toBe(120_000);
});

test("where windows are committed, one ends long before its transaction would time out", () => {
  expect(endOf(100, false, 30_000).endedMs).toBe(1_000);
  expect(endOf(120_000, true, 30_000)).toEqual({ endedMs: 15_000, waitMs: 15_000 });
  expect(endOf(10_000, false, 30_000).endedMs).toBe(15_000);
});

test("while a request holds the checkpoint back, windows become longer, so that their recorded ends stay few", () => {
  expect(endOf(10, true, null, 1_000).endedMs).toBe(10);
  expect(endOf(10, true, null, 1_001).endedMs).toBe(110);
  expect(endOf(10, false, null, 5_000).endedMs).toBe(500);
  expect(endOf(10, true, null, 20_000).endedMs).toBe(2_000);
});
