// What a replica knows of connectors that others hold.

import { expect, test } from "bun:test";
import type { RunReport } from "../../../src/connector/service/run-report.ts";
import { ReportReader } from "../../../src/runtime/replicas/report-reader.ts";
import type { StoredReport } from "../../../src/state/stores/report-store.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const report: RunReport = {
  form: 1,
  run_id: "run-1",
  is_over: false,
  load: { running: 0, waiting: 0 },
  reading: null,
  status: { state: { realtime: { name: "slot" } }, status: { heartbeat: {} } },
  phase: { state: "realtime", health: "heartbeat" },
};

/** The table of reports, as the state has it. */
function rig() {
  const clock = new ManualClock();
  const table = new Map<string, StoredReport>();
  const state = { isAway: false, hasOthers: true, polls: 0, warnings: 0, tables: null as string | null };
  const came: string[] = [];
  const reader = new ReportReader({
    store: {
      since: async (self, seen) => {
        state.polls += 1;
        if (state.isAway) throw new Error("away");
        const isNew = ({ holder, version }: StoredReport) =>
          holder !== self && version > (seen.get(holder) ?? 0);
        return [...table.values()].filter(isNew);
      },
      tables: async () => state.tables,
    },
    self: "me",
    hasOthers: () => state.hasOthers,
    came: (id) => came.push(id),
    log: { warn: () => state.warnings++ },
    monotonicMs: clock.now,
    schedule: clock.schedule,
  });
  const write = (connectorId: string, holder: string, version: number, runId = "run-1", form = 1) =>
    table.set(connectorId, {
      connectorId,
      holder,
      version,
      body: JSON.stringify({ ...report, run_id: runId, form }),
    });
  return { clock, reader, write, state, table, came: () => came.splice(0) };
}

test("a report is known half a second after it was written, and is read once", async () => {
  const { clock, reader, write, came } = rig();
  reader.start();
  await clock.pass(100);
  write("orders", "other", 1);
  write("mine", "me", 9);
  await clock.pass(500);
  expect(came()).toEqual(["orders"]);
  expect(reader.latest("orders")).toEqual({ holder: "other", report });
  expect(reader.latest("mine")).toBeNull();
  await clock.pass(5_000);
  expect(came()).toEqual([]);
  write("orders", "other", 2, "run-2");
  await clock.pass(500);
  expect(reader.latest("orders")?.report.run_id).toBe("run-2");
});

test("the next holder's report takes the place of the last one's, however low its version", async () => {
  const { clock, reader, write } = rig();
  write("orders", "other", 500);
  reader.start();
  await clock.pass(10);
  write("orders", "third", 1, "run-2");
  await clock.pass(500);
  expect(reader.latest("orders")).toMatchObject({ holder: "third", report: { run_id: "run-2" } });
  // And back again.
  write("orders", "other", 501, "run-3");
  await clock.pass(500);
  expect(reader.latest("orders")).toMatchObject({ holder: "other", report: { run_id: "run-3" } });
});

test("a report of an unknown form is as if it were not there, and is not read again and again", async () => {
  const { clock, reader, write, came } = rig();
  write("orders", "other", 1);
  reader.start();
  await clock.pass(10);
  expect(came()).toEqual(["orders"]);
  write("orders", "newer", 1, "run-1", 2);
  await clock.pass(2_000);
  expect(came()).toEqual([]);
  expect(reader.latest("orders")).toBeNull();
  expect([...reader.all()]).toEqual([]);
});

test("what is forgotten stays so until somebody reports anew", async () => {
  const { clock, reader, write, table } = rig();
  write("orders", "other", 1);
  write("events", "other", 1);
  reader.start();
  await clock.pass(10);
  reader.forget("orders");
  table.delete("orders");
  await clock.pass(2_000);
  expect(reader.latest("orders")).toBeNull();
  write("orders", "other", 2);
  await clock.pass(500);
  expect(reader.latest("orders")?.holder).toBe("other");
  expect([...reader.all()].map(([id]) => id).sort()).toEqual(["events", "orders"]);
});

test("while the state is away the last reports are known, and it is warned of once", async () => {
  const { clock, reader, write, state } = rig();
  write("orders", "other", 1);
  reader.start();
  await clock.pass(10);
  state.isAway = true;
  await clock.pass(3_000);
  expect(state.warnings).toBe(1);
  expect(reader.latest("orders")).not.toBeNull();
  state.isAway = false;
  write("orders", "other", 2, "run-2");
  await clock.pass(500);
  expect(reader.latest("orders")?.report.run_id).toBe("run-2");
});

test("a replica that is alone asks for nothing", async () => {
  const { clock, reader, state } = rig();
  state.hasOthers = false;
  reader.start();
  await clock.pass(5_000);
  expect(state.polls).toBe(0);
  state.hasOthers = true;
  await clock.pass(500);
  expect(state.polls).toBe(1);
  await reader[Symbol.asyncDispose]();
  await clock.pass(5_000);
  expect([state.polls, clock.timers]).toEqual([1, 0]);
});

test("tables are read when they are asked for; what is not understood counts as none", async () => {
  const { reader, state } = rig();
  expect(await reader.tables("orders")).toEqual([]);
  const table = { schema: "public", name: "t", state: "Streaming", rows_in: 3, history: false };
  state.tables = JSON.stringify([table]);
  expect(await reader.tables("orders")).toEqual([table] as never);
  state.tables = "[{}]";
  expect(await reader.tables("orders")).toEqual([]);
});
