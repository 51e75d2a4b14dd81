// The metrics: counters go on over workers that count from zero again, and go with their connector.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { RunMetrics } from "../../src/runtime/messages.ts";
import { RuntimeFixture } from "../support/runtime-fixture.ts";
import { sampleRequest } from "../support/sample-connector.ts";
import { waitFor } from "../support/wait-for.ts";

// Real databases and threads, on machines that do other things too.
setDefaultTimeout(60_000);

let runtime: RuntimeFixture;

beforeAll(async () => {
  runtime = await RuntimeFixture.open();
});

afterAll(async () => {
  await runtime[Symbol.asyncDispose]();
});

function metrics(change: Partial<RunMetrics>): RunMetrics {
  const snapshot = { tables: 2, tablesDone: 1, copying: 1, rows: 5, bytes: 50, estimatedRows: 10 };
  const counted = { rowsIn: 0, rowsDurable: 0, bytesDurable: 0, requests: 0 };
  return { ...counted, snapshot, lagBytes: 0, latencyMs: null, resumeLsn: null, ...change };
}

async function value(series: string): Promise<number | null> {
  const line = (await runtime.metrics.text()).split("\n").find((text) => text.startsWith(`${series} `));
  return line === undefined ? null : Number(line.slice(series.length + 1));
}

test("counters rise by what was added, also when a new worker begins at zero", async () => {
  const { board } = runtime;
  board.begin("orders", "run");
  for (const rowsDurable of [10, 25, 4])
    board.measured("orders", "run", metrics({ rowsDurable, requests: rowsDurable }));
  expect(await value('millrace_rows_durable_total{connector="orders"}')).toBe(29);
  expect(await value('millrace_requests_total{connector="orders"}')).toBe(29);
});

test("gauges say what is now, and latency is counted once per news", async () => {
  const { board } = runtime;
  board.begin("gauged", "run");
  const seen = metrics({ rowsDurable: 1, lagBytes: 77, latencyMs: 12 });
  board.measured("gauged", "run", seen);
  board.measured("gauged", "run", seen);
  expect(await value('millrace_lag_bytes{connector="gauged"}')).toBe(77);
  expect(await value('millrace_snapshot_estimated_rows{connector="gauged"}')).toBe(10);
  expect(await value('millrace_latency_seconds_count{connector="gauged"}')).toBe(1);
});

test("the status shows the measurements of its own run only", () => {
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

test("a connector that is gone takes its series with it", async () => {
  runtime.board.begin("gone", "run");
  runtime.board.measured("gone", "run", metrics({ rowsDurable: 3 }));
  runtime.board.forget("gone");
  expect(await runtime.metrics.text()).not.toContain('connector="gone"');
});

test("tables that are set aside are counted, and listed in the status, until none is", async () => {
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
