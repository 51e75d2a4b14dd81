import { describe, expect, test } from "bun:test";
import { describeConnector, rowsPerSecond, withSample } from "../../src/demo/connector-view.ts";

describe("the rate", () => {
  const samples = (...points: [number, number][]) =>
    points.reduce<ReturnType<typeof withSample>>((all, [atMs, rows]) => withSample(all, { atMs, rows }), []);

  test("is over the last two seconds", () => {
    expect(rowsPerSecond(samples([0, 0], [1000, 100]))).toBe(100);
    expect(rowsPerSecond(samples([0, 0], [1000, 9000], [2000, 9100], [3000, 9200]))).toBe(100);
  });

  test("is zero at first, and restarts with a run that counts from zero", () => {
    expect(rowsPerSecond([])).toBe(0);
    expect(rowsPerSecond(samples([0, 500]))).toBe(0);
    expect(rowsPerSecond(samples([0, 500], [1000, 10], [2000, 20]))).toBe(10);
  });
});

test("a connector's line shows phase, copy, rate, lag and the error", () => {
  const snapshot = { tables: 2, tables_done: 1, rows: 1500, bytes: 9, estimated_rows: 3000 };
  const progress = {
    rows_in: 0,
    rows_durable: 0,
    bytes_durable: 0,
    requests: 0,
    snapshot,
    lag_bytes: 20_000,
    lag_seconds: 0,
    latency_ms: 12.4,
    resume_lsn: null,
  };
  const line = describeConnector(
    "orders",
    { state: { snapshot: { name: "a.b" } }, status: { start: {} }, progress },
    1234.5,
  );
  expect(line).toMatch(/orders +snapshot +copied 1,500 of 3,000 +1,235\/s +lag 20 kB, 12 ms/);
  const failed = { state: { realtime: { name: "s" } }, status: { failed: { reason: "no slot" } } };
  expect(describeConnector("orders", failed, 0)).toContain("realtime failed: no slot");
});
