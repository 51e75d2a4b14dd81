// The metrics as OTLP: against the published protobuf definitions, and against what /metrics says.

import { afterAll, beforeAll, expect, test } from "bun:test";
import proto from "@opentelemetry/otlp-transformer/build/src/generated/root";
import { BatchMeasures } from "../../../src/pipeline/batch-measures.ts";
import { otlpRequest, type PromMetric, SeriesStarts } from "../../../src/runtime/metrics/otlp-encoding.ts";
import { runMetrics } from "../../support/pipeline/run-metrics.ts";
import { RuntimeFixture } from "../../support/runtime/runtime-fixture.ts";

/** A message type of protobufjs, as far as it is used here. */
interface MessageType {
  fromObject(json: object): object;
  toObject(
    message: object,
    options: { readonly longs: typeof String; readonly enums: typeof Number },
  ): object;
  encode(message: object): { finish(): Uint8Array };
  decode(bytes: Uint8Array): object;
}

// library edge: the generated module has no types of its messages.
const { opentelemetry } = proto as unknown as {
  opentelemetry: { proto: { collector: { metrics: { v1: { ExportMetricsServiceRequest: MessageType } } } } };
};
const Request = opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest;
const startMs = Date.parse("2026-01-02T03:04:05.678Z");
const nowMs = startMs + 60_000;
const source = { version: "1.2.3", resource: { "service.name": "mine" } };
let runtime: RuntimeFixture;

beforeAll(async () => {
  runtime = await RuntimeFixture.open();
  const { board } = runtime;
  board.begin("orders", "run");
  board.attempted("orders");
  const batches = new BatchMeasures();
  for (const seconds of [0.003, 0.02, 0.02, 400]) batches.latency.observe(seconds);
  const slot = { retainedBytes: 99, safeBytes: null, warning: null };
  const webhook = { requests: 3, results: { "200": 3, "503": 1 }, sentBytes: 7 };
  board.measured(
    "orders",
    "run",
    runMetrics({ rowsDurable: 25, webhook, slot, batches: batches.distributions() }),
  );
});

afterAll(async () => {
  await runtime[Symbol.asyncDispose]();
});

// biome-ignore lint/suspicious/noExplicitAny: the test looks into a JSON document.
function encoded(metrics: readonly PromMetric[]): any {
  return otlpRequest(source, metrics, nowMs, new SeriesStarts(startMs).startOf);
}

/** Protobuf does not tell an empty list from none. */
function withoutEmpty(json: object): object {
  const isEmpty = (value: unknown) => Array.isArray(value) && value.length === 0;
  return JSON.parse(JSON.stringify(json), (_, value) => (isEmpty(value) ? undefined : value));
}

test("every field is one of the protobuf definitions, in their JSON form", async () => {
  const request = encoded(await runtime.metrics.collect());
  // What the definitions do not know does not survive the way through the binary form.
  const read = Request.decode(Request.encode(Request.fromObject(request)).finish());
  expect(Request.toObject(read, { longs: String, enums: Number })).toEqual(withoutEmpty(request));
});

test("every metric of /metrics is there, as it is there", async () => {
  const [text, metrics] = [await runtime.metrics.text(), await runtime.metrics.collect()];
  const { resource, scopeMetrics } = encoded(metrics).resourceMetrics[0];
  expect(resource.attributes).toEqual([{ key: "service.name", value: { stringValue: "mine" } }]);
  expect(scopeMetrics[0].scope).toEqual({ name: "millrace", version: "1.2.3" });
  const names = scopeMetrics[0].metrics.map(({ name }: { name: string }) => name);
  const withSeries = [...text.matchAll(/^# TYPE (\S+) \S+\n(?=[^#\n])/gm)].map(([, name]) => name ?? "");
  expect(names.toSorted()).toEqual(withSeries.toSorted());
  expect(names.length).toBeGreaterThan(20);
});

test("a counter is a cumulative sum, a gauge a gauge, a histogram has its bounds", async () => {
  const { metrics } = encoded(await runtime.metrics.collect()).resourceMetrics[0].scopeMetrics[0];
  const metricOf = (name: string) => metrics.find((metric: { name: string }) => metric.name === name);
  const orders = { key: "connector", value: { stringValue: "orders" } };
  const startTimeUnixNano = `${startMs}000000`;
  const timeUnixNano = `${nowMs}000000`;
  expect(metricOf("millrace_rows_durable_total")).toEqual({
    name: "millrace_rows_durable_total",
    description: "Rows that are durable at sinks.",
    sum: {
      dataPoints: [{ attributes: [orders], startTimeUnixNano, timeUnixNano, asDouble: 25 }],
      aggregationTemporality: 2,
      isMonotonic: true,
    },
  });
  expect(metricOf("millrace_slot_retained_bytes").gauge).toEqual({
    dataPoints: [{ attributes: [orders], timeUnixNano, asDouble: 99 }],
  });
  const { histogram } = metricOf("millrace_latency_seconds");
  const [point] = histogram.dataPoints;
  expect(histogram.aggregationTemporality).toBe(2);
  expect(point).toMatchObject({ attributes: [orders], startTimeUnixNano, timeUnixNano, count: "4" });
  expect(point.sum).toBeCloseTo(400.043);
  const { bucketCounts, explicitBounds } = point;
  expect(bucketCounts).toHaveLength(explicitBounds.length + 1);
  const boundOf = (seconds: number) => explicitBounds.findIndex((bound: number) => seconds <= bound);
  expect([bucketCounts[boundOf(0.003)], bucketCounts[boundOf(0.02)], bucketCounts.at(-1)]).toEqual([
    "1",
    "2",
    "1",
  ]);
  expect(bucketCounts.reduce((sum: number, count: string) => sum + Number(count), 0)).toBe(4);
});

test("a series that is new, or begins anew, has counted since the collection before", () => {
  const starts = new SeriesStarts(startMs);
  const at = (ms: number, values: Readonly<Record<string, number>>) => {
    const found = Object.entries(values).map(([series, value]) => starts.startOf(series, value));
    starts.collected(ms);
    return found;
  };
  expect(at(1_000 + startMs, { a: 5 })).toEqual([startMs]);
  expect(at(2_000 + startMs, { a: 5, b: 1 })).toEqual([startMs, startMs + 1_000]);
  expect(at(3_000 + startMs, { a: 2, b: 3 })).toEqual([startMs + 2_000, startMs + 1_000]);
  expect(at(4_000 + startMs, { b: 4 })).toEqual([startMs + 1_000]);
  expect(at(5_000 + startMs, { a: 9, b: 4 })).toEqual([startMs + 4_000, startMs + 1_000]);
});

test("a value that JSON has no number for is left out", () => {
  const values = [Number.NaN, Number.POSITIVE_INFINITY].map((value) => ({ value, labels: {} }));
  const request = encoded([{ name: "g", help: "", type: "gauge", values }]);
  expect(request.resourceMetrics[0].scopeMetrics[0].metrics).toEqual([]);
});
