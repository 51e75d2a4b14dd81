// What a holder writes for the others, and when.

import { expect, test } from "bun:test";
import type { RunReport } from "../../../src/connector/service/run-report.ts";
import { ReportWriter } from "../../../src/runtime/replicas/report-writer.ts";
import type { NewReport } from "../../../src/state/stores/report-store.ts";
import { ManualClock } from "../../support/manual-clock.ts";

function reportOf(rows: number): RunReport {
  return {
    form: 1,
    run_id: "run-1",
    is_over: false,
    load: { running: 0, waiting: 0 },
    status: { state: { realtime: { name: "slot" } }, status: { heartbeat: {} } },
    reading: { runId: "run-1", rowsIn: rows, rowsDurable: 0, bytesDurable: 0, lagSeconds: 0, lagBytes: 0 },
    phase: { state: "realtime", health: "heartbeat" },
  };
}

function rig() {
  const clock = new ManualClock();
  const statements: (readonly NewReport[])[] = [];
  const lost = new Set<string>();
  const reports = new Map<string, RunReport>();
  const revisions = new Map<string, number>();
  const state = { isAway: false, isAlone: false, warnings: 0, until: Promise.resolve() };
  const writer = new ReportWriter({
    store: {
      save: async (holder, saved) => {
        expect(holder).toBe("instance-1");
        await state.until;
        if (state.isAway) throw new Error("away");
        statements.push(saved);
      },
    },
    holder: "instance-1",
    hasOthers: () => !state.isAlone,
    holds: (id) => !lost.has(id),
    report: (id) => reports.get(id) ?? null,
    tables: {
      revision: (id) => revisions.get(id) ?? null,
      list: (id, runId) => [
        { schema: runId, name: id, state: "Streaming", rows_in: 0, history: false } as const,
      ],
    },
    log: { warn: () => state.warnings++ },
    monotonicMs: clock.now,
    schedule: clock.schedule,
  });
  const taken = () =>
    statements.splice(0).map((saved) => saved.map(({ connectorId, kind }) => `${connectorId} ${kind}`));
  return { clock, writer, statements, lost, reports, revisions, state, taken };
}

test("what is gained is reported at once, also what was not measured, all in one statement", async () => {
  const { clock, writer, reports, revisions, statements } = rig();
  reports.set("orders", { ...reportOf(0), reading: null });
  reports.set("events", reportOf(1));
  revisions.set("events", 1);
  writer.gained("orders", 4);
  writer.gained("events", 5);
  // Nobody has begun its run yet.
  writer.gained("silent", 1);
  await clock.pass(0);
  expect(statements).toHaveLength(1);
  expect(statements[0]).toMatchObject([
    { connectorId: "orders", term: 4, kind: "status", version: 1 },
    { connectorId: "events", term: 5, kind: "status", version: 1 },
    { connectorId: "events", term: 5, kind: "tables", version: 1 },
  ]);
  expect(JSON.parse(statements[0]?.[0]?.body ?? "")).toEqual({ ...reportOf(0), reading: null });
});

test("a status is written at once after a calm, and then at most ten times a second", async () => {
  const { clock, writer, reports, taken } = rig();
  reports.set("orders", reportOf(0));
  writer.gained("orders", 1);
  await clock.pass(10_020);
  taken();
  // A status, of which the board tells.
  await clock.pass(300);
  reports.set("orders", reportOf(1));
  writer.reported("orders");
  await clock.pass(180);
  expect(taken()).toEqual([["orders status"]]);
  for (let n = 2; n < 100; n++) {
    reports.set("orders", reportOf(n));
    writer.reported("orders");
    await clock.pass(20);
  }
  expect(taken().length).toBeWithin(15, 21);
  // A measurement, of which nobody tells.
  await clock.pass(1_000);
  taken();
  reports.set("orders", reportOf(100));
  await clock.pass(500);
  expect(taken()).toEqual([["orders status"]]);
  await clock.pass(5_000);
  expect(taken()).toEqual([]);
});

test("a status does not wait for what else is new, which is written twice a second", async () => {
  const { clock, writer, reports, taken } = rig();
  for (const id of ["orders", "events"]) {
    reports.set(id, reportOf(0));
    writer.gained(id, 1);
  }
  await clock.pass(10_020);
  taken();
  const spans = new Map<string, number>([
    ["orders", 0],
    ["events", 0],
  ]);
  for (let rows = 1; rows < 40; rows++) {
    for (const id of spans.keys()) reports.set(id, reportOf(rows));
    // Whatever the time since the last look at all.
    writer.reported("orders");
    await clock.pass(130);
    for (const [id] of taken()
      .flat()
      .map((entry) => entry.split(" ")))
      spans.set(id ?? "", (spans.get(id ?? "") ?? 0) + 1);
  }
  // In five seconds.
  expect(spans.get("orders")).toBe(39);
  expect(spans.get("events")).toBeWithin(9, 12);
});

test("nothing more is written of what is lost, also by the clock alone, and all of it when it comes back", async () => {
  const { clock, writer, reports, lost, taken } = rig();
  for (const id of ["orders", "events"]) {
    reports.set(id, reportOf(0));
    writer.gained(id, 1);
  }
  await clock.pass(600);
  taken();
  lost.add("events");
  writer.lost("orders");
  for (const id of ["orders", "events"]) reports.set(id, reportOf(1));
  await clock.pass(60_000);
  expect(taken()).toEqual([]);
  lost.clear();
  writer.gained("orders", 3);
  await clock.pass(600);
  expect(taken().flat().sort()).toEqual(["events status", "orders status"]);
});

test("while the state is away the newest waits, and it is warned of once", async () => {
  const { clock, writer, reports, state, statements } = rig();
  state.isAway = true;
  writer.gained("orders", 1);
  for (let n = 0; n < 10; n++) {
    reports.set("orders", reportOf(n));
    await clock.pass(500);
  }
  expect(state.warnings).toBe(1);
  state.isAway = false;
  await clock.pass(500);
  expect(statements).toHaveLength(1);
  expect(JSON.parse(statements[0]?.[0]?.body ?? "").reading.rowsIn).toBe(9);
});

test("one statement at a time, and versions rise", async () => {
  const { clock, writer, reports, state, statements } = rig();
  const slow = Promise.withResolvers<void>();
  state.until = slow.promise;
  reports.set("orders", reportOf(0));
  writer.gained("orders", 1);
  await clock.pass(100);
  reports.set("orders", reportOf(1));
  writer.reported("orders");
  await clock.pass(5_000);
  expect(statements).toHaveLength(0);
  slow.resolve();
  await clock.pass(1_000);
  expect(statements.flat().map(({ body }) => JSON.parse(body).reading.rowsIn)).toEqual([0, 1]);
  const [first, second] = statements.flat();
  expect(second?.version).toBeGreaterThan(first?.version ?? 0);
});

test("all is written again after half a minute, and at once when the table may be empty", async () => {
  const { clock, writer, reports, revisions, taken } = rig();
  const ids = Array.from({ length: 50 }, (_, n) => `connector-${n}`);
  for (const id of ids) {
    reports.set(id, reportOf(0));
    revisions.set(id, 1);
    writer.gained(id, 1);
  }
  await clock.pass(1_000);
  expect(taken()[0]).toHaveLength(100);
  await clock.pass(30_500);
  const again = taken();
  expect(again.flat().sort()).toEqual(ids.map((id) => `${id} status`).sort());
  expect(Math.max(...again.map((statement) => statement.length))).toBeLessThan(20);
  writer.writeAllAgain();
  await clock.pass(500);
  expect(taken().flat()).toHaveLength(100);
});

test("the table fills itself also when it was emptied while a statement was under way", async () => {
  const { clock, writer, reports, state, taken } = rig();
  const slow = Promise.withResolvers<void>();
  state.until = slow.promise;
  reports.set("orders", reportOf(0));
  writer.gained("orders", 1);
  await clock.pass(10);
  writer.writeAllAgain();
  slow.resolve();
  await clock.pass(1_000);
  expect(taken()).toEqual([["orders status"], ["orders status"]]);
});

test("tables are written every two seconds while they change, and anew for another run", async () => {
  const { clock, writer, reports, revisions, taken } = rig();
  reports.set("orders", reportOf(0));
  revisions.set("orders", 1);
  writer.gained("orders", 1);
  await clock.pass(400);
  taken();
  for (let n = 2; n < 12; n++) {
    revisions.set("orders", n);
    await clock.pass(400);
  }
  const count = taken().flat().length;
  expect(count).toBeGreaterThanOrEqual(1);
  expect(count).toBeLessThanOrEqual(3);
  await clock.pass(5_000);
  taken();
  reports.set("orders", { ...reportOf(0), run_id: "run-2" });
  await clock.pass(500);
  expect(taken()).toEqual([["orders status", "orders tables"]]);
});

test("after its end nothing is written, and no timer is left", async () => {
  const { clock, writer, reports, taken } = rig();
  reports.set("orders", reportOf(0));
  writer.gained("orders", 1);
  await clock.pass(600);
  taken();
  await writer[Symbol.asyncDispose]();
  reports.set("orders", reportOf(1));
  writer.reported("orders");
  await clock.pass(60_000);
  expect(taken()).toEqual([]);
  expect(clock.timers).toBe(0);
});
