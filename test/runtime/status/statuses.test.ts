// What is shown of runs here and elsewhere.

import { expect, test } from "bun:test";
import type { RunReport } from "../../../src/connector/service/run-report.ts";
import type { Status } from "../../../src/connector/status.ts";
import { createLog } from "../../../src/log.ts";
import { StatusBoard } from "../../../src/runtime/status/status-board.ts";
import { LocalStatuses, type ReportElsewhere, SharedStatuses } from "../../../src/runtime/status/statuses.ts";
import type { HistoryStore } from "../../../src/state/stores/history-store.ts";
import { runMetrics } from "../../support/pipeline/run-metrics.ts";

const history = { append: async () => {} } as unknown as HistoryStore;
const streaming: Status = { state: { realtime: { name: "slot" } }, status: { heartbeat: {} } };
const starting: Status = { state: { start: {} }, status: { start: {} } };
const copying: Status = { state: { snapshot: { name: "public.t" } }, status: { start: {} } };

function reported(runId: string, change: Partial<RunReport> = {}): RunReport {
  return {
    form: 1,
    run_id: runId,
    status: streaming,
    is_over: false,
    reading: { runId, rowsIn: 9, rowsDurable: 9, bytesDurable: 90, lagSeconds: 0, lagBytes: 0 },
    load: { running: 2, waiting: 3 },
    phase: { state: "realtime", health: "heartbeat" },
    ...change,
  };
}

function rig() {
  const log = createLog({ level: "silent", readable: false, write: () => {} });
  const board = new StatusBoard(history, log, () => new Date());
  const over = new Set<string>();
  const local = new LocalStatuses(board, {
    isOver: (id, runId) => over.has(`${id} ${runId}`),
    taskLoad: () => ({ running: 1, waiting: 0 }),
  });
  const held = new Set<string>();
  const alone = new Set<string>();
  const reports = new Map<string, ReportElsewhere>();
  const shared = new SharedStatuses({
    local,
    reports: {
      latest: (id) => reports.get(id) ?? null,
      all: () => reports,
      tables: async (id) => [
        { schema: "public", name: id, state: "Streaming", rows_in: 1, history: false } as const,
      ],
    },
    holds: (id) => held.has(id),
    replicaId: "here",
    isLeftAlone: (id) => alone.has(id),
    replicaOf: (holder) => (holder === "instance-2" ? "there" : null),
  });
  return { board, local, shared, held, alone, reports, over };
}

test("a run that was stored and that nobody has begun is starting, whatever the last one did", () => {
  const { board, local } = rig();
  board.begin("orders", "run-1");
  board.report("orders", "run-1", "Source", streaming);
  expect(local.status({ id: "orders", runId: "run-1" })).toEqual(streaming);
  expect(local.status({ id: "orders", runId: "run-2" })).toEqual(starting);
  expect(local.status({ id: "unknown", runId: "run-1" })).toEqual(starting);
});

test("a connector that is held here is shown by the board, another by its report", () => {
  const { board, shared, held, reports } = rig();
  board.begin("orders", "run-1");
  held.add("orders");
  // A report of an earlier holder.
  reports.set("orders", { holder: "instance-2", report: reported("run-1") });
  expect(shared.status({ id: "orders", runId: "run-1" })).toEqual({ ...starting, replica: "here" });
  held.delete("orders");
  expect(shared.status({ id: "orders", runId: "run-1" })).toEqual({ ...streaming, replica: "there" });
  expect(shared.runId("orders")).toBe("run-1");
  expect(shared.status({ id: "orders", runId: "run-2" })).toEqual({ ...starting, replica: "there" });
  expect(shared.status({ id: "new", runId: "run-1" })).toEqual(starting);
});

test("a holder that is not known, or dead, is not named, and one that nobody has taken over is said so", () => {
  const { shared, alone, reports } = rig();
  reports.set("orders", { holder: "instance-3", report: reported("run-1") });
  expect(shared.status({ id: "orders", runId: "run-1" })).toEqual(streaming);
  alone.add("orders");
  const shown = shared.status({ id: "orders", runId: "run-1" });
  expect(shown.state).toEqual({ start: {} });
  expect(shown.status.warning?.reason).toStartWith("No replica runs it");
  expect(shared.load()).toEqual({ running: 0, waiting: 0 });
  expect(shared.readings().size).toBe(0);
});

test("a run is over where its holder says so, and only the run that it says it of", () => {
  const { shared, held, reports, over } = rig();
  reports.set("orders", { holder: "instance-2", report: reported("run-1", { is_over: true }) });
  expect(shared.isOver("orders", "run-1")).toBe(true);
  expect(shared.isOver("orders", "run-2")).toBe(false);
  held.add("orders");
  expect(shared.isOver("orders", "run-1")).toBe(false);
  over.add("orders run-1");
  expect(shared.isOver("orders", "run-1")).toBe(true);
});

test("what is copied, and what was measured, is of all connectors, each once", async () => {
  const { board, shared, held, reports } = rig();
  board.begin("orders", "run-1");
  board.report("orders", "run-1", "Source", copying);
  const snapshot = { tables: 3, tablesDone: 0, copying: 2, rows: 0, bytes: 0, estimatedRows: 0 };
  board.measured("orders", "run-1", runMetrics({ rowsIn: 5, snapshot }));
  held.add("orders");
  for (const id of ["orders", "events"]) reports.set(id, { holder: "instance-2", report: reported("run-7") });
  // Two tables that are copied and one of a task here, two there.
  expect(shared.load()).toEqual({ running: 5, waiting: 4 });
  const readings = shared.readings();
  expect(readings.get("orders")).toMatchObject({ rowsIn: 5 });
  expect(readings.get("events")).toMatchObject({ rowsIn: 9 });
  expect((await shared.tables("events", "run-7")).map(({ name }) => name)).toEqual(["events"]);
  expect(await shared.tables("orders", "run-1")).toEqual([]);
});

test("a run that another replica goes on with counts anew, so its reading is another run's", () => {
  const { shared, reports } = rig();
  const runIdOf = () => shared.readings().get("orders")?.runId;
  reports.set("orders", { holder: "instance-2", report: reported("run-1") });
  const before = runIdOf();
  expect(runIdOf()).toBe(before as string);
  reports.set("orders", { holder: "instance-3", report: reported("run-1") });
  expect(runIdOf()).not.toBe(before as string);
});

test("what is reported to others is the status with its measurements, and nothing before the run has begun", () => {
  const { board, local, over } = rig();
  expect(local.report("orders")).toBeNull();
  board.begin("orders", "run-1");
  expect(local.report("orders")).toMatchObject({ run_id: "run-1", reading: null, is_over: false });
  board.measured("orders", "run-1", runMetrics({ rowsIn: 5, lagBytes: 8 }));
  over.add("orders run-1");
  expect(local.report("orders")).toMatchObject({
    status: { progress: { rows_in: 5 } },
    reading: { rowsIn: 5, lagBytes: 8 },
    is_over: true,
    load: { running: 1, waiting: 0 },
    phase: { state: "start", health: "start" },
  });
});

test("what is released is no longer known here, and is not told as deleted", () => {
  const { board } = rig();
  const told: string[] = [];
  board.addWatch({ forget: () => told.push("forget"), released: () => told.push("released") });
  board.begin("orders", "run-1");
  board.measured("orders", "run-1", runMetrics({ rowsIn: 5 }));
  board.release("orders");
  expect(told).toEqual(["released"]);
  expect(board.runId("orders")).toBeNull();
  expect([board.metrics().size, board.phases().size]).toEqual([0, 0]);
});
