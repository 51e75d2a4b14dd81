// The metrics: counters continue when a worker restarts its own at zero, and end with their connector.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { BatchMeasures } from "../../../src/pipeline/batch-measures.ts";
import { KafkaCounter } from "../../../src/runtime/metrics/kafka-counter.ts";
import type { RunMetrics } from "../../../src/runtime/threads/messages.ts";
import { sampleRequest } from "../../support/api/sample-connector.ts";
import { runMetrics } from "../../support/pipeline/run-metrics.ts";
import { RuntimeFixture } from "../../support/runtime/runtime-fixture.ts";
import { waitFor } from "../../support/wait-for.ts";

let runtime: RuntimeFixture;

beforeAll(async () => {
  runtime = await RuntimeFixture.open();
});

afterAll(async () => {
  await runtime[Symbol.asyncDispose]();
});

function metrics(change: Partial<RunMetrics>): RunMetrics {
  const snapshot = { tables: 2, tablesDone: 1, copying: 1, rows: 5, bytes: 50, estimatedRows: 10 };
  return runMetrics({ snapshot, ...change });
}

async function value(series: string): Promise<number | null> {
  const line = (await runtime.metrics.text()).split("\n").find((text) => text.startsWith(`${series} `));
  return line === undefined ? null : Number(line.slice(series.length + 1));
}

test("counters rise by the difference, also when a new worker starts at zero", async () => {
  const { board } = runtime;
  board.begin("orders", "run");
  board.attempted("orders");
  const measured = (rowsDurable: number, results: Record<string, number>) => {
    const batches = new BatchMeasures();
    for (let n = 0; n < rowsDurable; n++) batches.latency.observe(0.02);
    const webhook = { requests: rowsDurable, results, sentBytes: 0 };
    board.measured("orders", "run", metrics({ rowsDurable, webhook, batches: batches.distributions() }));
  };
  measured(10, { "200": 1 });
  measured(25, { "200": 3, "503": 1 });
  board.failed("orders", "run", new MillraceError("sink_unreachable", "Nothing answers."));
  board.attempted("orders");
  // More than the previous worker's last value in the first report. The worker started at zero all the same.
  measured(30, { "200": 4, ECONNREFUSED: 2 });
  const of = (name: string, more = "") => value(`${name}{connector="orders"${more}}`);
  expect(await of("millrace_rows_durable_total")).toBe(55);
  expect(await of("millrace_requests_total")).toBe(55);
  expect(await of("millrace_latency_seconds_count")).toBe(55);
  expect(await value('millrace_latency_seconds_bucket{le="0.01",connector="orders"}')).toBe(0);
  expect(await value('millrace_latency_seconds_bucket{le="0.025",connector="orders"}')).toBe(55);
  expect(await value('millrace_latency_seconds_bucket{le="+Inf",connector="orders"}')).toBe(55);
  expect(await of("millrace_latency_seconds_sum")).toBeCloseTo(1.1);
  const results = ["200", "503", "ECONNREFUSED"].map((result) =>
    of("millrace_webhook_requests_total", `,result="${result}"`),
  );
  expect(await Promise.all(results)).toEqual([7, 1, 2]);
  expect(await of("millrace_run_attempts_total")).toBe(2);
  expect(await of("millrace_run_failures_total", ',code="sink_unreachable"')).toBe(1);
});

test("what is produced to Kafka is counted apart from webhooks' requests", async () => {
  const { board } = runtime;
  board.begin("produced", "run");
  board.attempted("produced");
  const counter = new KafkaCounter();
  const measured = () => board.measured("produced", "run", metrics({ kafka: counter.counts() }));
  measured();
  const of = (name: string) => value(`${name}{connector="produced"}`);
  expect(await of("millrace_kafka_messages_total")).toBe(0);
  expect(await of("millrace_kafka_fencings_total")).toBe(0);
  counter.sent(3, 200);
  counter.committed(20);
  measured();
  counter.sent(4, 100);
  counter.retried();
  measured();
  board.failed("produced", "run", new MillraceError("kafka_fenced", "Another one runs."));
  board.attempted("produced");
  // Another worker starts at zero.
  const next = new KafkaCounter();
  next.sent(5, 50);
  next.committed(1_500);
  board.measured("produced", "run", metrics({ kafka: next.counts() }));
  expect(await of("millrace_kafka_messages_total")).toBe(12);
  expect(await of("millrace_kafka_sent_bytes_total")).toBe(350);
  expect(await of("millrace_kafka_retries_total")).toBe(1);
  expect(await of("millrace_kafka_fencings_total")).toBe(1);
  expect(await of("millrace_kafka_commit_seconds_count")).toBe(2);
  expect(await of("millrace_kafka_commit_seconds_sum")).toBeCloseTo(1.52);
  expect(await value('millrace_kafka_commit_seconds_bucket{le="0.025",connector="produced"}')).toBe(1);
  expect(await of("millrace_requests_total")).toBe(0);
  expect(await value('millrace_kafka_messages_total{connector="orders"}')).toBeNull();
  board.forget("produced");
  const left = (await runtime.metrics.text()).split("\n").filter((line) => line.includes('"produced"'));
  expect(left).toEqual([]);
});

test("gauges show current values, and are absent while unknown", async () => {
  const { board } = runtime;
  board.begin("gauged", "run");
  const slot = { retainedBytes: 99, safeBytes: null, warning: null };
  board.measured("gauged", "run", metrics({ rowsDurable: 1, lagBytes: 77, slot }));
  expect(await value('millrace_slot_retained_bytes{connector="gauged"}')).toBe(99);
  expect(await value('millrace_slot_safe_bytes{connector="gauged"}')).toBeNull();
  expect(await value('millrace_lag_bytes{connector="gauged"}')).toBe(77);
  expect(await value('millrace_snapshot_estimated_rows{connector="gauged"}')).toBe(10);
});

test("the lag grows with time, and ends once a stream that has caught up reports it", async () => {
  const { board } = runtime;
  board.begin("late", "run");
  board.attempted("late");
  const series = () => value('millrace_lag_seconds{connector="late"}');
  const seconds = () => board.status("late").progress?.lag_seconds ?? null;
  board.measured("late", "run", metrics({}));
  // Nothing streams, so the lag is unknown.
  expect([seconds(), await series()]).toEqual([null, null]);
  board.measured("late", "run", metrics({ resumeLsn: "0/10" }));
  expect([seconds(), await series()]).toEqual([0, 0]);
  const behindSinceMs = Date.now() - 5_000;
  board.measured("late", "run", metrics({ behindSinceMs, resumeLsn: "0/10", lagBytes: 70 }));
  const first = seconds() ?? 0;
  expect(first).toBeGreaterThanOrEqual(5);
  await Bun.sleep(20);
  expect(seconds()).toBeGreaterThan(first);
  // Another attempt, and another run, neither of which streams yet.
  board.attemptEnded("late");
  board.attempted("late");
  board.measured("late", "run", metrics({}));
  expect(seconds()).toBeGreaterThan(first);
  board.begin("late", "run-2");
  board.attempted("late");
  board.measured("late", "run-2", metrics({}));
  expect(await series()).toBeGreaterThan(first);
  expect(board.status("late").progress?.lag_bytes).toBe(70);
  // It streams again, and what waited has not come yet.
  board.measured("late", "run-2", metrics({ resumeLsn: "0/10", lagBytes: 0 }));
  expect(seconds()).toBeGreaterThan(first);
  board.measured("late", "run-2", metrics({ resumeLsn: "0/20", lagBytes: 0 }));
  expect([seconds(), board.status("late").progress?.lag_bytes]).toEqual([0, 0]);
  // A source whose clock is ahead of ours.
  board.measured("late", "run-2", metrics({ behindSinceMs: Date.now() + 60_000, resumeLsn: "0/20" }));
  expect(seconds()).toBe(0);
  board.measured("late", "run-2", metrics({ resumeLsn: "0/20" }));
  board.attemptEnded("late");
  expect([seconds(), await series()]).toEqual([null, null]);
});

test("a run's counts continue across its attempts, and another run starts at zero", () => {
  const { board } = runtime;
  board.begin("counted", "run");
  const shown = () => board.status("counted").progress;
  const snapshot = { tables: 3, tablesDone: 3, copying: 0, rows: 30, bytes: 300, estimatedRows: 30 };
  board.attempted("counted");
  board.measured("counted", "run", metrics({ rowsIn: 4, rowsDurable: 3, snapshot, latencyMs: 8 }));
  board.attempted("counted");
  expect(shown()).toMatchObject({ rows_in: 4, rows_durable: 3 });
  const none = { ...snapshot, tables: 0, tablesDone: 0, rows: 0, bytes: 0, estimatedRows: 0 };
  board.measured("counted", "run", metrics({ rowsIn: 2, snapshot: none }));
  expect(shown()).toMatchObject({
    rows_in: 6,
    rows_durable: 3,
    latency_ms: 8,
    snapshot: { tables_done: 3, rows: 30 },
  });
  board.begin("counted", "run-2");
  board.measured("counted", "run-2", metrics({ rowsIn: 1, snapshot: none }));
  expect(shown()).toMatchObject({ rows_in: 1, rows_durable: 0, latency_ms: null, snapshot: { rows: 0 } });
});

test("the status shows only the measurements of its own run", () => {
  const { board } = runtime;
  board.begin("shown", "01-first");
  board.measured("shown", "01-first", metrics({ rowsIn: 3, resumeLsn: "0/10" }));
  expect(board.status("shown").progress).toMatchObject({ rows_in: 3, resume_lsn: "0/10" });
  board.begin("shown", "02-second");
  board.measured("shown", "01-first", metrics({ rowsIn: 4 }));
  board.report("shown", "01-first", "Source", {
    state: { realtime: { name: "old" } },
    status: { heartbeat: {} },
  });
  expect(board.status("shown")).toEqual({ state: { start: {} }, status: { start: {} } });
});

test("the last error includes retries inside the sink and failed attempts", () => {
  const { board } = runtime;
  board.begin("erring", "run");
  const retry = (reason: string) =>
    board.reportHealth("erring", "run", "Source", { retry: { attempt: 1, reason } });
  const last = () => board.status("erring").last_error;
  retry("The receiver answered 503.");
  expect(last()).toMatchObject({ code: "sink_retrying", reason: "The receiver answered 503." });
  board.failed("erring", "run", new MillraceError("sink_unreachable", "Nothing answers."));
  retry("Nothing answers.");
  expect(last()?.code).toBe("sink_unreachable");
});

test("a deleted connector's series disappear", async () => {
  runtime.board.begin("gone", "run");
  runtime.board.attempted("gone");
  const webhook = { requests: 1, results: { "200": 1 }, sentBytes: 1 };
  runtime.board.measured("gone", "run", metrics({ rowsDurable: 3, webhook }));
  runtime.board.failed("gone", "run", new MillraceError("sink_unreachable", "Nothing answers."));
  runtime.board.forget("gone");
  expect(await runtime.metrics.text()).not.toContain('connector="gone"');
});

test("only connectors that the replica holds have series, and each says which replica that is", async () => {
  const { board } = runtime;
  for (const id of ["held", "moved"]) {
    board.begin(id, "run");
    board.attempted(id);
    board.measured(id, "run", metrics({ rowsDurable: 3, lagBytes: 5 }));
  }
  expect(await value('millrace_connector_holder{connector="moved",replica="replica-1"}')).toBe(1);
  const streaming = 'millrace_connectors{state="start",health="start"}';
  const before = (await value(streaming)) ?? 0;
  // Its run is ending, and reports a little longer.
  runtime.heldElsewhere.add("moved");
  board.release("moved");
  board.report("moved", "run", "Source", { state: { start: {} }, status: { start: {} } });
  board.attempted("moved");
  board.measured("moved", "run", metrics({ rowsDurable: 4, lagBytes: 6 }));
  board.failed("moved", "run", new MillraceError("sink_unreachable", "Nothing answers."));
  const text = await runtime.metrics.text();
  expect(text).not.toContain('connector="moved"');
  expect(text).toContain('millrace_connector_holder{connector="held",replica="replica-1"} 1');
  expect(await value(streaming)).toBe(before - 1);
  expect(await value('millrace_rows_durable_total{connector="held"}')).toBe(3);
});

test("a connector that no replica holds is told by a zero, so that a rule can see it", async () => {
  runtime.board.begin("run-here", "run");
  for (const id of ["orphan", "run-here"]) runtime.leftAlone.add(id);
  expect(await value('millrace_connector_holder{connector="orphan",replica="replica-1"}')).toBe(0);
  // It was taken since the installation was looked at.
  expect(await value('millrace_connector_holder{connector="run-here",replica="replica-1"}')).toBe(1);
  runtime.leftAlone.clear();
  expect(await runtime.metrics.text()).not.toContain('"orphan"');
});

test("whether the service is ready is a metric, as /readyz says it", async () => {
  expect(await value("millrace_ready")).toBe(1);
  runtime.unready = "The service is stopping.";
  expect(await value("millrace_ready")).toBe(0);
  runtime.unready = null;
  expect(await value("millrace_ready")).toBe(1);
});

test("tables that are set aside are counted, and listed in the status, until there are none", async () => {
  await runtime.connectors.createOrReplace("aside", { ...sampleRequest(), disabled: true }, null);
  const { run_id: run } = await runtime.connectors.get("aside");
  const table = {
    schema: "s",
    name: "t",
    since_lsn: "0/1",
    reason: "It does not fit.",
    commands: ["select 1;"],
  };
  await waitFor(
    "the connector's entry",
    async () => (await runtime.connectors.get("aside")).status.state.disabled,
  );
  runtime.board.setAside("aside", run, [table]);
  expect((await runtime.connectors.get("aside")).status.tables_set_aside).toEqual([table]);
  expect(await runtime.metrics.text()).toContain('millrace_tables_set_aside{connector="aside"} 1');
  runtime.board.setAside("aside", run, []);
  expect((await runtime.connectors.get("aside")).status).not.toHaveProperty("tables_set_aside");
});

test("tasks are counted by state, including empty states, because alerts need the zero", async () => {
  for (const state of ["Pending", "Running", "Done", "Failed", "Cancelled"])
    expect(await value(`millrace_tasks{state="${state}"}`)).toBe(0);
});

test("a comparison of a sample leaves what one of all rows has found", async () => {
  const table = { database: "shop", schema: "public", name: "t", repair: "None" } as const;
  const result = {
    as_of_lsn: "0/1",
    rows: 9,
    ranges: 1,
    missing: 2,
    extra: 0,
    changed: 1,
    repaired: 0,
    sample: [],
  };
  const differing = () => value('millrace_verify_differences{connector="sampled"}');
  runtime.metrics.verified("sampled", { spec: { Verify: table } }, result);
  expect(await differing()).toBe(3);
  const none = { ...result, rows: 1, missing: 0, changed: 0 };
  runtime.metrics.verified("sampled", { spec: { Verify: { ...table, sample_percent: 1 } } }, none);
  expect(await differing()).toBe(3);
  expect(await value('millrace_verify_rows_total{connector="sampled"}')).toBe(10);
  runtime.metrics.verified("sampled", { spec: { Verify: table } }, none);
  expect(await differing()).toBe(0);
});
