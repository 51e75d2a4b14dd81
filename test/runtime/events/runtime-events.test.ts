// What of all that happens becomes an event.

import { expect, test } from "bun:test";
import type { ServiceEvent } from "../../../src/connector/service/service-event.ts";
import type { Status } from "../../../src/connector/status.ts";
import type { Task } from "../../../src/connector/task.ts";
import { createLog } from "../../../src/log.ts";
import { RuntimeEvents } from "../../../src/runtime/events/runtime-events.ts";
import { StatusBoard } from "../../../src/runtime/status/status-board.ts";
import type { HistoryStore } from "../../../src/state/stores/history-store.ts";
import { runMetrics } from "../../support/pipeline/run-metrics.ts";

const history = { add: async () => {} } as unknown as HistoryStore;
const streaming: Status = { state: { realtime: { name: "slot" } }, status: { heartbeat: {} } };
const task: Task = {
  id: "t1",
  state: "Running",
  spec: {},
  created_at: new Date(0).toISOString(),
  attempt: 0,
};

function rig() {
  const log = createLog({ level: "silent", readable: false, write: () => {} });
  const board = new StatusBoard(history, log, () => new Date());
  const told: { event: ServiceEvent; key: string | null }[] = [];
  const clock = { ms: 0 };
  const events = new RuntimeEvents({
    publish: (event, key) => told.push({ event, key }),
    status: (id) => board.status(id),
    runId: (id) => board.runId(id),
    monotonicMs: () => clock.ms,
  });
  board.addWatch(events);
  return { board, events, clock, told: () => told.splice(0) };
}

test("a status that says something new is an event, and progress is none", () => {
  const { board, told } = rig();
  board.begin("orders", "run-1");
  expect(told()).toMatchObject([
    { event: { event: "status", data: { connector_id: "orders", run_id: "run-1" } }, key: "status orders" },
  ]);
  board.report("orders", "run-1", "Source", streaming);
  expect(told()).toHaveLength(1);
  for (let n = 0; n < 3; n++) {
    board.report("orders", "run-1", "Target", streaming);
    board.measured("orders", "run-1", runMetrics({ rowsIn: n }));
  }
  expect(told()).toEqual([]);
  board.report("orders", "old-run", "Source", { ...streaming, status: { start: {} } });
  expect(told()).toEqual([]);
  board.begin("orders", "run-2");
  expect(told()).toMatchObject([{ event: { data: { run_id: "run-2", status: { state: { start: {} } } } } }]);
});

test("a retry's event has its error, and its tables those that are set aside", () => {
  const { board, told } = rig();
  board.begin("orders", "run-1");
  told();
  board.report("orders", "run-1", "Target", {
    ...streaming,
    status: { retry: { attempt: 1, reason: "Away." } },
  });
  expect(told()).toMatchObject([{ event: { data: { status: { last_error: { reason: "Away." } } } } }]);
  const table = { schema: "public", name: "t", reason: "Too small.", commands: [] };
  for (let n = 0; n < 2; n++) board.setAside("orders", "run-1", [table]);
  expect(told()).toMatchObject([{ event: { data: { status: { tables_set_aside: [table] } } } }]);
  board.setAside("orders", "run-1", []);
  const [event] = told();
  expect(event?.event.data).not.toHaveProperty("status.tables_set_aside");
});

test("a connector that goes is told once, and one that never was is not", () => {
  const { board, told } = rig();
  board.forget("never");
  expect(told()).toEqual([]);
  board.begin("orders", "run-1");
  told();
  board.forget("orders");
  board.forget("orders");
  expect(told()).toEqual([
    { event: { event: "connector", data: { connector_id: "orders", change: "deleted" } }, key: null },
  ]);
});

test("a connector of which only its creation was told, or that was there before, is told when it goes", () => {
  const { board, events, told } = rig();
  events.connectorCreated("orders");
  events.connectorKnown("events");
  told();
  for (const id of ["orders", "events"]) board.forget(id);
  expect(told().map(({ event }) => event.data)).toEqual([
    { connector_id: "orders", change: "deleted" },
    { connector_id: "events", change: "deleted" },
  ]);
});

test("a connector that another replica holds from now on is not told as deleted", () => {
  const { board, told } = rig();
  board.begin("orders", "run-1");
  told();
  board.release("orders");
  expect(told()).toEqual([]);
});

test("a task's progress is told at most every two seconds, and its changes always", () => {
  const { events, clock, told } = rig();
  events.taskChanged("orders", task);
  for (let n = 0; n < 10; n++) {
    events.taskProgressed("orders", { ...task, progress: { rows: n, bytes: n, estimated_rows: n } });
    clock.ms += 500;
  }
  expect(told().map(({ key }) => key)).toEqual(new Array(4).fill("task orders t1"));
  events.taskChanged("orders", { ...task, state: "Done" });
  expect(told()).toMatchObject([{ event: { data: { connector_id: "orders", task: { state: "Done" } } } }]);
});

test("a replica that joins, leaves, falls silent or holds another number of connectors is an event, and a renewal is none", () => {
  const { events, told } = rig();
  const replica = (id: string, change: object = {}) => ({
    id,
    instance: id,
    isAlive: true,
    active: 1,
    ...change,
  });
  const sees = (...replicas: ReturnType<typeof replica>[]) => {
    events.sawReplicas(replicas);
    return told().map(({ event, key }) => {
      expect(key).toBe(`replica ${(event.data as { replica_id: string }).replica_id}`);
      return event;
    });
  };
  const event = (id: string, change: "joined" | "changed" | "left") => {
    return { event: "replica" as const, data: { replica_id: id, change } };
  };
  expect(sees(replica("a"))).toEqual([]);
  expect(sees(replica("a"))).toEqual([]);
  expect(sees(replica("a"), replica("b", { active: 0 }))).toEqual([event("b", "joined")]);
  expect(sees(replica("a", { active: 0 }), replica("b"))).toEqual([
    event("a", "changed"),
    event("b", "changed"),
  ]);
  expect(sees(replica("a", { active: 0 }), replica("b", { isAlive: false }))).toEqual([
    event("b", "changed"),
  ]);
  expect(sees(replica("a", { active: 0 }))).toEqual([event("b", "left")]);
});
