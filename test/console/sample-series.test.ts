import { describe, expect, test } from "bun:test";
import {
  lastEnd,
  measures,
  type SampleSeries,
  windowOf,
  withSamples,
} from "../../console/connector/sample-series.ts";
import type { ConnectorSamples } from "../../src/connector/service/samples.ts";

const start = Date.parse("2026-01-01T00:00:00.000Z") / 1000;

/** Steps whose first ended `first` steps after the start. */
function samples(first: number, values: readonly (number | null)[]): ConnectorSamples {
  const series = [...values];
  const first_at = new Date((start + first * 5) * 1000).toISOString();
  const measured = {
    rows_in: series,
    rows_durable: series,
    bytes_durable: series,
    lag_seconds: series,
    lag_bytes: series,
  };
  return { connector_id: "orders", first_at, ...measured };
}

const hour = { measures, seconds: 3_600 };
const from = (...lists: (ConnectorSamples | undefined)[]) =>
  lists.reduce<SampleSeries | null>((known, added) => withSamples(known, added, 5, hour), null);

describe("samples", () => {
  test("are joined step by step, and what comes again counts once", () => {
    expect(from(samples(0, [1, 2]), samples(2, [3]))?.rows_in).toEqual([1, 2, 3]);
    expect(from(samples(0, [1, 2]), samples(1, [20, 3]))?.rows_in).toEqual([1, 20, 3]);
  });

  test("that are missing are unknown", () => {
    expect(from(samples(0, [1]), samples(3, [4]))?.rows_in).toEqual([1, null, null, 4]);
  });

  test("are kept for an hour", () => {
    const series = from(samples(0, Array<number>(720).fill(1)), samples(720, [2, 3]));
    expect(series?.rows_in).toHaveLength(720);
    expect(series?.rows_in.slice(-2)).toEqual([2, 3]);
    expect(series?.firstAt).toBe(start + 10);
  });

  test("from long after what is known begin anew, and no more of them are kept than of others", () => {
    expect(from(samples(0, [1]), samples(722, [2, 3]))).toMatchObject({ rows_in: [2, 3], steps: 2 });
    expect(from(samples(0, Array<number>(1_000).fill(1)))?.rows_in).toHaveLength(720);
  });

  test("of none leave what is known", () => {
    expect(from(undefined)).toBeNull();
    expect(from(samples(0, [1]), undefined, samples(1, []))?.rows_in).toEqual([1]);
  });

  test("are asked for from the end of the newest step", () => {
    expect(lastEnd([from(samples(0, [1]))!, from(samples(0, [1, 2, 3]))!])).toBe("2026-01-01T00:00:10.000Z");
    expect(lastEnd([])).toBeNull();
  });
});

describe("the window", () => {
  const series = from(samples(0, [1, 2, 3]))!;

  test("ends with the newest step", () => {
    const { times, values } = windowOf(series, 10, start + 12);
    expect(times).toEqual([start + 5, start + 10]);
    expect(values.rows_in).toEqual([2, 3]);
  });

  test("goes on to now where nothing is measured any more", () => {
    const { times, values } = windowOf(series, 15, start + 100);
    expect(times).toEqual([start + 90, start + 95, start + 100]);
    expect(values.rows_in).toEqual([null, null, null]);
  });

  test("begins before the first step where there are too few", () => {
    expect(windowOf(series, 25, start + 10).values.rows_in).toEqual([null, null, 1, 2, 3]);
  });
});
