// Two replicas over one table of reports: what one runs, the other shows and tells.

import { expect, test } from "bun:test";
import type { ServiceEvent } from "../../../src/connector/service/service-event.ts";
import type { Status } from "../../../src/connector/status.ts";
import { createLog } from "../../../src/log.ts";
import type { EventHub } from "../../../src/runtime/events/event-hub.ts";
import { RuntimeEvents } from "../../../src/runtime/events/runtime-events.ts";
import { ReplicaBoards } from "../../../src/runtime/replicas/replica-boards.ts";
import { StatusBoard } from "../../../src/runtime/status/status-board.ts";
import { LocalStatuses } from "../../../src/runtime/status/statuses.ts";
import type { Notice } from "../../../src/state/notices.ts";
import type { HistoryStore } from "../../../src/state/stores/history-store.ts";
import type { InstallationView, ReplicaView } from "../../../src/state/stores/lease-store.ts";
import type { NewReport, StoredReport } from "../../../src/state/stores/report-store.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { runMetrics } from "../../support/pipeline/run-metrics.ts";

const streaming: Status = { state: { realtime: { name: "slot" } }, status: { heartbeat: {} } };
const history = { append: async () => {} } as unknown as HistoryStore;
const log = createLog({ level: "silent", readable: false, write: () => {} });

/** The state that the replicas share. */
class SharedTables {
  readonly reports = new Map<string, StoredReport & { readonly kind: string }>();
  readonly connectors = new Map<string, never>();
  readonly listeners = new Map<string, (notice: Notice) => void>();

  save(holder: string, saved: readonly NewReport[]): void {
    for (const { connectorId, kind, version, body } of saved)
      this.reports.set(`${connectorId} ${kind}`, { connectorId, holder, version, body, kind });
  }

  since(self: string, seen: ReadonlyMap<string, number>): StoredReport[] {
    return [...this.reports.values()].filter(
      ({ kind, holder, version }) =>
        kind === "status" && holder !== self && version > (seen.get(holder) ?? 0),
    );
  }

  add(id: string): void {
    this.connectors.set(id, { id, given: { name: id }, createdAt: new Date(1) } as never);
  }
}

const replicaView = (id: string): ReplicaView => ({
  id,
  instance: `instance-${id}`,
  host: "h",
  version: "1.0.0",
  weight: 1,
  trouble: null,
  startedAt: new Date(0),
  seenAt: new Date(0),
  isAlive: true,
  held: 0,
  active: 0,
});
const view: InstallationView = { replicas: [replicaView("a"), replicaView("b")], free: [], nextEndMs: null };

function replica(id: string, tables: SharedTables, clock: ManualClock) {
  const board = new StatusBoard(history, log, () => new Date());
  const local = new LocalStatuses(board, {
    isOver: () => false,
    taskLoad: () => ({ running: 0, waiting: 0 }),
  });
  const held = new Set<string>();
  const told: ServiceEvent[] = [];
  const state = { resets: 0 };
  const events: RuntimeEvents = new RuntimeEvents({
    publish: (event) => told.push(event),
    status: (connector) =>
      boards.statuses.status({ id: connector, runId: boards.statuses.runId(connector) ?? "" }),
    runId: (connector) => boards.statuses.runId(connector),
    monotonicMs: clock.now,
  });
  const find = async (connector: string) => tables.connectors.get(connector) ?? null;
  const boards = new ReplicaBoards({
    board,
    local,
    events,
    replicaId: id,
    instance: `instance-${id}`,
    log,
    hub: { reset: () => state.resets++ } as unknown as EventHub,
    connectors: { list: async () => [...tables.connectors.values()], find },
    tasks: { find: async () => null },
    reports: {
      save: async (holder, saved) => tables.save(holder, saved),
      since: async (self, seen) => tables.since(self, seen),
      tables: async (connector) => tables.reports.get(`${connector} tables`)?.body ?? null,
    },
    notices: {
      listen: (listener) => {
        tables.listeners.set(id, listener);
        return () => tables.listeners.delete(id);
      },
    },
    holds: (connector) => held.has(connector),
    view: () => view,
    monotonicMs: clock.now,
    schedule: clock.schedule,
  });
  board.addWatch(events);
  const gain = (connector: string, term: number) => {
    held.add(connector);
    boards.gained(connector, term);
  };
  const lose = (connector: string) => {
    held.delete(connector);
    boards.lost(connector);
    board.release(connector);
  };
  return { board, boards, gain, lose, state, told: () => told.splice(0) };
}

async function pair() {
  const [tables, clock] = [new SharedTables(), new ManualClock()];
  tables.add("orders");
  const [a, b] = [replica("a", tables, clock), replica("b", tables, clock)];
  for (const { boards } of [a, b]) await boards.start();
  await clock.pass(1_000);
  return { tables, clock, a, b };
}

const orders = { id: "orders", runId: "run-1" };

test("within a second the other replica shows the status, with its progress, and has told of it", async () => {
  const { clock, a, b } = await pair();
  a.gain("orders", 1);
  a.board.begin("orders", "run-1");
  await clock.pass(2_000);
  b.told();
  a.board.report("orders", "run-1", "Source", streaming);
  a.board.measured("orders", "run-1", runMetrics({ rowsIn: 7 }));
  await clock.pass(1_000);
  expect(b.boards.statuses.status(orders)).toMatchObject({
    ...streaming,
    progress: { rows_in: 7 },
    replica: "a",
  });
  expect(b.told()).toMatchObject([
    { event: "status", data: { connector_id: "orders", run_id: "run-1", status: streaming } },
  ]);
  // Mere progress is shown, and is no event.
  a.board.measured("orders", "run-1", runMetrics({ rowsIn: 9 }));
  await clock.pass(1_000);
  expect(b.boards.statuses.status(orders).progress?.rows_in).toBe(9);
  expect(b.told()).toEqual([]);
});

test("tables that are set aside elsewhere are told", async () => {
  const { clock, a, b } = await pair();
  a.gain("orders", 1);
  a.board.begin("orders", "run-1");
  await clock.pass(2_000);
  b.told();
  const table = { schema: "public", name: "t", reason: "Too small.", commands: [] };
  a.board.setAside("orders", "run-1", [table]);
  await clock.pass(1_000);
  expect(b.told()).toMatchObject([{ data: { status: { tables_set_aside: [table] } } }]);
});

test("a connector that moves is shown by its next holder, and the last one reports it no more", async () => {
  const { tables, clock, a, b } = await pair();
  a.gain("orders", 1);
  a.board.begin("orders", "run-1");
  a.board.report("orders", "run-1", "Source", streaming);
  await clock.pass(1_000);
  a.lose("orders");
  // Nobody has reported since: what it was is not what it is.
  expect(a.boards.statuses.status(orders)).toEqual({ state: { start: {} }, status: { start: {} } });
  b.gain("orders", 2);
  b.board.begin("orders", "run-1");
  await clock.pass(1_000);
  expect(a.boards.statuses.status(orders)).toMatchObject({ state: { start: {} }, replica: "b" });
  b.board.report("orders", "run-1", "Source", streaming);
  await clock.pass(60_000);
  expect(a.boards.statuses.status(orders)).toEqual({ ...streaming, replica: "b" });
  expect(tables.reports.get("orders status")?.holder).toBe("instance-b");
});

test("a connector that is held again before its earlier run has ended here is reported on", async () => {
  const { clock, a, b } = await pair();
  a.gain("orders", 1);
  a.board.begin("orders", "run-1");
  a.board.report("orders", "run-1", "Source", streaming);
  await clock.pass(1_000);
  // The state did not answer for as long as the lease lasted, and then does: the earlier run is still ending.
  a.boards.lost("orders");
  a.gain("orders", 2);
  a.board.release("orders");
  a.board.begin("orders", "run-2");
  a.board.report("orders", "run-2", "Source", streaming);
  await clock.pass(1_000);
  expect(b.boards.statuses.status({ id: "orders", runId: "run-2" })).toMatchObject({
    ...streaming,
    replica: "a",
  });
});

test("an emptied table of reports fills itself", async () => {
  const { tables, clock, a, b } = await pair();
  a.gain("orders", 1);
  a.board.begin("orders", "run-1");
  await clock.pass(1_000);
  tables.reports.clear();
  await clock.pass(31_000);
  expect(tables.reports.has("orders status")).toBe(true);
  tables.reports.clear();
  for (const tell of tables.listeners.values()) tell({ what: "missed" });
  await clock.pass(600);
  expect(tables.reports.has("orders status")).toBe(true);
  expect(b.state.resets).toBe(1);
});

test("a connector that another replica makes and deletes is told, and forgotten", async () => {
  const { tables, clock, a, b } = await pair();
  b.told();
  tables.add("events");
  const notice: Notice = { what: "connector", connector: "events" };
  tables.listeners.get("b")?.(notice);
  a.boards.watch.connectorCreated("events");
  a.gain("events", 1);
  a.board.begin("events", "run-1");
  await clock.pass(1_000);
  for (const { told } of [a, b])
    expect(told()).toMatchObject([
      { event: "connector", data: { connector_id: "events", change: "created" } },
      { event: "status", data: { connector_id: "events" } },
    ]);
  tables.connectors.delete("events");
  for (const kind of ["status", "tables"]) tables.reports.delete(`events ${kind}`);
  a.board.forget("events");
  tables.listeners.get("b")?.(notice);
  await clock.pass(1_000);
  for (const { told } of [a, b])
    expect(told()).toEqual([{ event: "connector", data: { connector_id: "events", change: "deleted" } }]);
  expect(b.boards.statuses.runId("events")).toBeNull();
  expect(tables.reports.has("events status")).toBe(false);
});

test("after its end a replica neither listens, nor reads, nor writes", async () => {
  const { tables, clock, a, b } = await pair();
  for (const { boards } of [a, b]) await boards[Symbol.asyncDispose]();
  await clock.pass(5_000);
  expect([clock.timers, tables.listeners.size]).toEqual([0, 0]);
});
