// What was measured of one connector, step by step: what the service has kept, then what is added. Pure.

import type { ConnectorSamples } from "../../src/connector/service/samples.ts";

export const measures = ["rows_in", "rows_durable", "bytes_durable", "lag_seconds", "lag_bytes"] as const;
export type Measure = (typeof measures)[number];
type Values = readonly (number | null)[];

/** Series of one length, oldest first. */
export type SampleSeries<Kept extends Measure = Measure> = Readonly<Record<Kept, Values>> & {
  readonly stepSeconds: number;
  /** When the first step ended, in Unix seconds. */
  readonly firstAt: number;
  /** How many. */
  readonly steps: number;
};

/** What is kept of what comes. */
export interface Keeping<Kept extends Measure> {
  readonly measures: readonly Kept[];
  readonly seconds: number;
}

/** @param added of the same connector; undefined: nothing was measured */
export function withSamples<Kept extends Measure>(
  known: SampleSeries<Kept> | null,
  added: ConnectorSamples | undefined,
  stepSeconds: number,
  keeping: Keeping<Kept>,
): SampleSeries<Kept> | null {
  if (!added || added.rows_in.length === 0) return known;
  const firstAt = Date.parse(added.first_at) / 1000;
  const most = Math.ceil(keeping.seconds / stepSeconds);
  const offset = known ? Math.round((firstAt - known.firstAt) / stepSeconds) : -1;
  // Older than what is known, or long after it: the service measures anew.
  const isAnew = !known || offset < 0 || offset > known.steps + most || known.stepSeconds !== stepSeconds;
  const before = isAnew ? 0 : offset;
  const dropped = Math.max(0, before + added.rows_in.length - most);
  const values = mapMeasures(keeping.measures, (measure) =>
    [...(isAnew ? [] : filled(known[measure], before)), ...added[measure]].slice(dropped),
  );
  const steps = before + added.rows_in.length - dropped;
  const first = (isAnew ? firstAt : known.firstAt) + dropped * stepSeconds;
  return { ...values, stepSeconds, firstAt: first, steps };
}

/** The end of the newest step of all, to ask from there on; null: there is none. */
export function lastEnd(all: Iterable<SampleSeries<never>>): string | null {
  let last: number | null = null;
  for (const { firstAt, stepSeconds, steps } of all)
    last = Math.max(last ?? 0, firstAt + (steps - 1) * stepSeconds);
  return last === null ? null : new Date(last * 1000).toISOString();
}

/** The last value; null: not known. */
export function lastOf(values: Values): number | null {
  return values.at(-1) ?? null;
}

export interface Window {
  /** When each step ended, in Unix seconds. */
  readonly times: readonly number[];
  readonly values: Readonly<Record<Measure, Values>>;
}

/** The last `seconds` up to now: also where nothing was measured lately. */
export function windowOf(series: SampleSeries, seconds: number, nowSeconds: number): Window {
  const { stepSeconds, firstAt, steps: known } = series;
  const steps = Math.ceil(seconds / stepSeconds);
  // A step that is just being measured, and the clocks of two machines, are no gap.
  const isLate = nowSeconds - (firstAt + known * stepSeconds) > 2 * stepSeconds;
  const last = isLate ? Math.floor((nowSeconds - firstAt) / stepSeconds) : known - 1;
  const indices = Array.from({ length: steps }, (_, index) => last - steps + 1 + index);
  return {
    times: indices.map((index) => firstAt + index * stepSeconds),
    values: mapMeasures(measures, (measure) => indices.map((index) => series[measure][index] ?? null)),
  };
}

/** What was added in each step, as a rate. */
export function perSecondOf(values: Values, stepSeconds: number): (number | null)[] {
  return values.map((value) => (value === null ? null : value / stepSeconds));
}

/** Rows a second in the newest step; null: not known. */
export function lastRate({ rows_durable, stepSeconds }: SampleSeries<"rows_durable">): number | null {
  const last = lastOf(rows_durable);
  return last === null ? null : last / stepSeconds;
}

export function isKnownSomewhere(values: Values): boolean {
  return values.some((value) => value !== null);
}

/** So many of them: what is missing is unknown. */
function filled(known: Values, length: number): Values {
  return Array.from({ length }, (_, index) => known[index] ?? null);
}

function mapMeasures<Kept extends Measure>(
  kept: readonly Kept[],
  valuesOf: (measure: Kept) => Values,
): Readonly<Record<Kept, Values>> {
  return Object.fromEntries(kept.map((measure) => [measure, valuesOf(measure)])) as Record<Kept, Values>;
}
