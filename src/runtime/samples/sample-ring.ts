// One connector's samples of the last hour, in memory that is taken once: five series of 720 numbers of four bytes are
// 14 kB. Pure: the steps are told by their number, which is the time divided by the step's length.

import { type ConnectorSamples, stepSeconds } from "../../connector/service/samples.ts";

const ringSteps = 3_600 / stepSeconds;

const seriesNames = ["rows_in", "rows_durable", "bytes_durable", "lag_seconds", "lag_bytes"] as const;
export type SeriesName = (typeof seriesNames)[number];

/** Null: not known. */
export type Sample = Readonly<Record<SeriesName, number | null>>;

export class SampleRing {
  /** Series behind series; NaN: not known. Seven digits are more than a curve shows. */
  readonly #values = new Float32Array(seriesNames.length * ringSteps).fill(Number.NaN);
  #first: number;
  #last: number;

  /** @param step the first one that is written */
  constructor(step: number) {
    this.#first = step;
    this.#last = step - 1;
  }

  /**
   * Writes the sample of a step. Nothing is known of steps that were left out. A step before the last one is written
   * when the clock was set back: what was later by the old time is dropped.
   */
  write(step: number, sample: Sample): void {
    this.#clear(Math.min(step, this.#last + 1), Math.max(step, this.#last));
    this.#first = Math.max(Math.min(this.#first, step), step - ringSteps + 1);
    this.#last = step;
    for (const [index, name] of seriesNames.entries())
      this.#values[index * ringSteps + slotOf(step)] = sample[name] ?? Number.NaN;
  }

  /** The samples behind a step; null: there is none. */
  after(step: number): Omit<ConnectorSamples, "connector_id"> | null {
    const first = Math.max(step + 1, this.#first);
    if (first > this.#last) return null;
    const series = (name: SeriesName) => this.#series(seriesNames.indexOf(name), first);
    return {
      first_at: new Date(first * stepSeconds * 1_000).toISOString(),
      rows_in: series("rows_in"),
      rows_durable: series("rows_durable"),
      bytes_durable: series("bytes_durable"),
      lag_seconds: series("lag_seconds"),
      lag_bytes: series("lag_bytes"),
    };
  }

  #series(index: number, first: number): (number | null)[] {
    return Array.from({ length: this.#last - first + 1 }, (_, n) => {
      const value = this.#values[index * ringSteps + slotOf(first + n)] ?? Number.NaN;
      return Number.isNaN(value) ? null : rounded(value);
    });
  }

  #clear(from: number, to: number): void {
    for (let step = Math.max(from, to - ringSteps + 1); step <= to; step++)
      for (const index of seriesNames.keys()) this.#values[index * ringSteps + slotOf(step)] = Number.NaN;
  }
}

function slotOf(step: number): number {
  return step % ringSteps;
}

/** A number of four bytes has digits beyond those that it holds. */
function rounded(value: number): number {
  return Math.round(value * 1_000) / 1_000;
}
