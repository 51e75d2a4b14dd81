// Samples of the last hour: what was added in each step, and null where nothing can be known.

import { expect, test } from "bun:test";
import type { Reading } from "../../../src/connector/service/run-report.ts";
import { SampleRecorder, stepMs } from "../../../src/runtime/samples/sample-recorder.ts";

const reading = (rowsIn: number, change: Partial<Reading> = {}): Reading => ({
  runId: "run-1",
  rowsIn,
  rowsDurable: rowsIn,
  bytesDurable: 100 * rowsIn,
  lagSeconds: 0.25,
  lagBytes: 64,
  ...change,
});

/** A recorder with both its clocks. */
class Rig {
  readonly recorder = new SampleRecorder();
  nowMs = 1_000_000 * stepMs;
  monotonicMs = 0;

  /** Lets time pass by both clocks, and takes a sample. */
  step(reading: Reading | null, ms = stepMs): void {
    this.nowMs += ms;
    this.monotonicMs += ms;
    this.take(reading);
  }

  take(reading: Reading | null): void {
    const readings = new Map(reading ? [["orders", reading]] : []);
    this.recorder.take(readings, this.nowMs, this.monotonicMs);
  }

  read(afterMs = 0) {
    const [samples] = this.recorder.read("orders", afterMs);
    return samples ?? null;
  }

  get rowsIn(): readonly (number | null)[] {
    return this.read()?.rows_in ?? [];
  }
}

test("counters become what was added in the step, gauges stay as they are", () => {
  const rig = new Rig();
  rig.take(null);
  rig.step(reading(10));
  rig.step(reading(25, { lagSeconds: null, lagBytes: 3_000_000_000_000 }));
  const first_at = new Date(rig.nowMs - stepMs).toISOString();
  const samples = rig.read();
  expect(samples).toMatchObject({ connector_id: "orders", first_at, rows_in: [10, 15] });
  expect(samples?.rows_durable).toEqual([10, 15]);
  expect(samples?.bytes_durable).toEqual([1_000, 1_500]);
  expect(samples?.lag_seconds).toEqual([0.25, null]);
  expect(samples?.lag_bytes[1]).toBeCloseTo(3e12, -6);
});

test("a new run counts from zero, and nothing is ever negative", () => {
  const rig = new Rig();
  rig.take(null);
  rig.step(reading(100));
  // More than the last run had, all the same.
  rig.step(reading(120, { runId: "run-2" }));
  rig.step(null);
  rig.step(reading(7, { runId: "run-3" }));
  rig.step(reading(3, { runId: "run-3" }));
  expect(rig.rowsIn).toEqual([100, 120, null, 7, 0]);
});

test("of the first sample nobody knows when it was added", () => {
  const rig = new Rig();
  rig.take(reading(1_000));
  expect(rig.rowsIn).toEqual([null]);
});

test("after a sleep, or a pause of the thread, there are nulls, and no spike", () => {
  const rig = new Rig();
  rig.take(null);
  rig.step(reading(10));
  rig.step(reading(10_000), 4 * stepMs);
  rig.step(reading(10_005));
  expect(rig.rowsIn).toEqual([10, null, null, null, null, 5]);
  expect(rig.read()?.lag_seconds).toEqual([0.25, null, null, null, 0.25, 0.25]);
  // A machine whose monotonic clock stands still while it sleeps.
  rig.nowMs += 2 * stepMs;
  rig.step(reading(20_000));
  expect(rig.rowsIn.slice(-4)).toEqual([5, null, null, null]);
  // Late, but still in its step by the clock.
  rig.monotonicMs += stepMs;
  rig.step(reading(30_000));
  expect(rig.rowsIn.at(-1)).toBeNull();
});

test("a clock that is set keeps the samples in their order", () => {
  const rig = new Rig();
  rig.take(null);
  for (let n = 1; n <= 5; n++) rig.step(reading(10 * n));
  rig.nowMs -= 3 * stepMs;
  rig.step(reading(60));
  rig.step(reading(70));
  // The last two steps of the old time are dropped.
  expect(rig.rowsIn).toEqual([10, 10, null, 10]);
  rig.nowMs -= 0.5 * stepMs;
  rig.step(reading(80), 0.6 * stepMs);
  rig.step(reading(90), 0.9 * stepMs);
  expect(rig.rowsIn).toEqual([10, 10, null, 10, 20]);
  rig.nowMs -= 100 * 3_600_000;
  rig.step(reading(100));
  expect(rig.rowsIn).toEqual([null]);
  rig.nowMs += 100 * 3_600_000;
  rig.step(reading(110));
  expect(rig.rowsIn).toEqual(new Array(720).fill(null));
});

test("a second call in a step changes nothing", () => {
  const rig = new Rig();
  rig.take(null);
  rig.step(reading(10));
  rig.step(reading(11), 1);
  rig.step(reading(30), stepMs - 1);
  expect(rig.rowsIn).toEqual([10, 20]);
});

test("an hour is kept, and `after` leaves out what ended before", () => {
  const rig = new Rig();
  rig.take(null);
  for (let n = 1; n <= 1_500; n++) rig.step(reading(n * n));
  expect(rig.rowsIn).toHaveLength(720);
  expect(rig.rowsIn[0]).toBe(2 * 781 - 1);
  expect(rig.rowsIn.at(-1)).toBe(2 * 1_500 - 1);
  const last = rig.read(rig.nowMs - stepMs);
  expect(last).toMatchObject({ first_at: new Date(rig.nowMs).toISOString(), rows_in: [2 * 1_500 - 1] });
  expect(rig.read(rig.nowMs - 1)?.rows_in).toHaveLength(1);
  expect(rig.read(rig.nowMs)).toBeNull();
});

test("a deleted connector's samples are gone", () => {
  const rig = new Rig();
  rig.take(null);
  rig.step(reading(10));
  rig.recorder.forget("orders");
  expect(rig.recorder.read(null, 0)).toEqual([]);
  rig.step(reading(5, { runId: "another" }));
  expect(rig.rowsIn).toEqual([5]);
});
