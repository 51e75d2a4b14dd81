// What was measured of one connector, step by step: what the service has kept, then what is added. Pure.

import type { ConnectorSamples, SampleList } from "../../../../src/connector/samples.ts";

const measures = ["rows_in", "rows_durable", "bytes_durable", "lag_seconds", "lag_bytes"] as const;
export type Measure = (typeof measures)[number];
type Values = readonly (number | null)[];

/** Series of one length, oldest first. */
export interface SampleSeries extends Readonly<Record<Measure, Values>> {
  readonly stepSeconds: number;
  /** When the first step ended, in Unix seconds. */
  readonly firstAt: number;
}

/** As long as the service keeps them. */
const keptSeconds = 3_600;

export function withSamples(known: SampleSeries | null, added: SampleList): SampleSeries | null {
  const [samples] = added.samples;
  if (!samples || samples.rows_in.length === 0) return known;
  const stepSeconds = added.step_seconds;
  const firstAt = Date.parse(samples.first_at) / 1000;
  const offset = known ? Math.round((firstAt - known.firstAt) / stepSeconds) : -1;
  const kept = Math.ceil(keptSeconds / stepSeconds);
  // Older than what is known, or long after it: the service measures anew.
  if (!known || offset < 0 || offset > kept || known.stepSeconds !== stepSeconds)
    return { ...pick(samples), stepSeconds, firstAt };
  const length = offset + samples.rows_in.length;
  const dropped = Math.max(0, length - kept);
  const joined = mapMeasures((measure) => join(known[measure], offset, samples[measure]).slice(dropped));
  return { ...joined, stepSeconds, firstAt: known.firstAt + dropped * stepSeconds };
}

/** The end of the newest step, to ask from there on. */
export function lastEnd({ firstAt, stepSeconds, rows_in }: SampleSeries): string {
  return new Date((firstAt + (rows_in.length - 1) * stepSeconds) * 1000).toISOString();
}

export interface Window {
  /** When each step ended, in Unix seconds. */
  readonly times: readonly number[];
  readonly values: Readonly<Record<Measure, Values>>;
}

/** The last `seconds` up to now: also where nothing was measured lately. */
export function windowOf(series: SampleSeries, seconds: number, nowSeconds: number): Window {
  const { stepSeconds, firstAt } = series;
  const steps = Math.ceil(seconds / stepSeconds);
  const known = series.rows_in.length;
  // A step that is just being measured, and the clocks of two machines, are no gap.
  const isLate = nowSeconds - (firstAt + known * stepSeconds) > 2 * stepSeconds;
  const last = isLate ? Math.floor((nowSeconds - firstAt) / stepSeconds) : known - 1;
  const indices = Array.from({ length: steps }, (_, index) => last - steps + 1 + index);
  return {
    times: indices.map((index) => firstAt + index * stepSeconds),
    values: mapMeasures((measure) => indices.map((index) => series[measure][index] ?? null)),
  };
}

/** What was added in each step, as a rate. */
export function perSecondOf(values: Values, stepSeconds: number): (number | null)[] {
  return values.map((value) => (value === null ? null : value / stepSeconds));
}

export function isKnownSomewhere(values: Values): boolean {
  return values.some((value) => value !== null);
}

/** `added` counts from `offset`: a gap before it is unknown. */
function join(known: Values, offset: number, added: Values): Values {
  const before = Array.from({ length: offset }, (_, index) => known[index] ?? null);
  return [...before, ...added];
}

function pick(samples: ConnectorSamples): Readonly<Record<Measure, Values>> {
  return mapMeasures((measure) => samples[measure]);
}

function mapMeasures(valuesOf: (measure: Measure) => Values): Readonly<Record<Measure, Values>> {
  return Object.fromEntries(measures.map((measure) => [measure, valuesOf(measure)])) as Record<
    Measure,
    Values
  >;
}
