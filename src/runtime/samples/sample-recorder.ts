// Takes a sample of each connector at each step. Decides what was added in the step, and what cannot be known. The
// clocks are arguments; sample-service.ts has the timer.

import type { Reading } from "../../connector/service/run-report.ts";
import { type ConnectorSamples, stepSeconds } from "../../connector/service/samples.ts";
import { type Sample, SampleRing } from "./sample-ring.ts";

export const stepMs = stepSeconds * 1_000;
/** A step that took longer, as after a sleep of the machine or a pause of the thread, would show as a spike. */
const longestStepMs = 1.5 * stepMs;

interface Series {
  readonly ring: SampleRing;
  last: Reading | null;
}

export class SampleRecorder {
  readonly #series = new Map<string, Series>();
  #last: { readonly step: number; readonly monotonicMs: number } | null = null;

  /**
   * Takes a sample of each connector, unless this step has one already. `nowMs` is the time of day, which may be set;
   * `monotonicMs` never goes back.
   */
  take(readings: ReadonlyMap<string, Reading>, nowMs: number, monotonicMs: number): void {
    const step = Math.floor(nowMs / stepMs);
    const last = this.#last;
    // Of a clock that was set back by less than a step: the next step has what was counted.
    if (last?.step === step) return;
    const isRegular =
      last !== null && step === last.step + 1 && monotonicMs - last.monotonicMs <= longestStepMs;
    this.#last = { step, monotonicMs };
    for (const [id, reading] of readings) {
      const series = this.#seriesOf(id, step);
      series.ring.write(step, sampleOf(reading, series.last, isRegular));
      series.last = reading;
    }
    for (const [id, series] of this.#series) if (!readings.has(id)) leaveOut(series, step);
  }

  forget(connectorId: string): void {
    this.#series.delete(connectorId);
  }

  /** The samples of steps that ended after a time, of one connector or of all (null). */
  read(connectorId: string | null, afterMs: number): ConnectorSamples[] {
    const step = Math.floor(afterMs / stepMs);
    const chosen =
      connectorId === null
        ? [...this.#series]
        : [...this.#series].filter(([connector_id]) => connector_id === connectorId);
    return chosen.flatMap(([connector_id, { ring }]) => {
      const samples = ring.after(step);
      return samples === null ? [] : [{ connector_id, ...samples }];
    });
  }

  #seriesOf(connectorId: string, step: number): Series {
    const existing = this.#series.get(connectorId);
    if (existing) return existing;
    const series = { ring: new SampleRing(step), last: null };
    this.#series.set(connectorId, series);
    return series;
  }
}

/** A run that has just begun has measured nothing yet. */
function leaveOut(series: Series, step: number): void {
  series.ring.write(step, nothing);
  series.last = null;
}

const nothing: Sample = {
  rows_in: null,
  rows_durable: null,
  bytes_durable: null,
  lag_seconds: null,
  lag_bytes: null,
};

/** `isRegular`: the step before this one was sampled, one step ago. */
function sampleOf(reading: Reading, last: Reading | null, isRegular: boolean): Sample {
  const before = last?.runId === reading.runId ? last : null;
  const added = (read: (reading: Reading) => number) =>
    isRegular ? Math.max(0, read(reading) - (before ? read(before) : 0)) : null;
  return {
    rows_in: added(({ rowsIn }) => rowsIn),
    rows_durable: added(({ rowsDurable }) => rowsDurable),
    bytes_durable: added(({ bytesDurable }) => bytesDurable),
    lag_seconds: reading.lagSeconds,
    lag_bytes: reading.lagBytes,
  };
}
