// What is told of replicas, and who tells of a connector.

import { expect, test } from "bun:test";
import { type Alert, alertBody, windowMs } from "../../src/alerts/alert.ts";
import { AlertWatch } from "../../src/alerts/alert-watch.ts";
import { retryingMs } from "../../src/alerts/connector-alerts.ts";
import { newTask } from "../../src/connector/task-state.ts";

const differing = {
  as_of_lsn: "0/1",
  rows: 1,
  ranges: 1,
  missing: 1,
  extra: 0,
  changed: 0,
  repaired: 0,
  sample: [],
};

const startMs = Date.parse("2026-01-02T03:04:05.678Z");
const lost = (id: string) => ({ id, host: `host of ${id}`, version: "1.2.0", seenAt: new Date(startMs) });

function rig() {
  const clock = { nowMs: startMs };
  const sent: Alert[] = [];
  const watch = new AlertWatch(
    (alert) => sent.push(alert),
    () => clock.nowMs,
  );
  const pass = (ms: number) => {
    clock.nowMs += ms;
    watch.tick();
  };
  return { clock, watch, pass, told: () => sent.splice(0) };
}

test("a lost replica is told at once, without a connector", () => {
  const { watch, told } = rig();
  watch.replicaLost(lost("a"));
  const [alert, ...more] = told();
  expect(more).toEqual([]);
  expect(JSON.parse(new TextDecoder().decode(alertBody(alert as Alert)))).toEqual({
    type: "replica.lost",
    timestamp: "2026-01-02T03:04:05.678Z",
    data: {
      count: 1,
      replicas: [{ id: "a", host: "host of a", version: "1.2.0", seen_at: "2026-01-02T03:04:05.678Z" }],
    },
    text: "Replica a on host of a is lost. It was last seen at 2026-01-02T03:04:05.678Z; others take over what it held.",
  });
});

test("replicas that are lost soon after one another are told together, a quarter of an hour after the first", () => {
  const { watch, pass, told } = rig();
  watch.replicaLost(lost("a"));
  told();
  for (let n = 0; n < 25; n++) {
    watch.replicaLost(lost(`b${n}`));
    pass(10_000);
  }
  expect(told()).toEqual([]);
  pass(windowMs);
  const [alert, ...more] = told();
  expect(more).toEqual([]);
  expect(alert).toMatchObject({ type: "replica.lost", atMs: startMs, data: { count: 25 } });
  expect(alert?.data.replicas).toHaveLength(20);
  expect(alert?.text).toStartWith("25 replicas are lost: b0, b1,");
});

test("a clock that was set back silences nothing", () => {
  const { clock, watch, told } = rig();
  watch.replicaLost(lost("a"));
  clock.nowMs -= 3_600_000;
  watch.replicaLost(lost("b"));
  expect(told().map(({ data }) => data.count)).toEqual([1, 1]);
});

test("of a connector that another replica holds from now on nothing more is told", () => {
  const { watch, pass, told } = rig();
  const state = { realtime: { name: "slot" } };
  watch.reported("orders", { state, status: { retry: { attempt: 1, reason: "Nothing answers." } } });
  watch.released("orders");
  pass(retryingMs + 60_000);
  expect(told()).toEqual([]);
});

test("what happened to a connector and waits is told before another replica holds it, as that one cannot", () => {
  const { watch, pass, told } = rig();
  const id = "3f6f3a52-6f7e-7000-8000-000000000001";
  const happen = (name: string) => {
    const table = { database: "shop", schema: "public", name };
    const task = {
      ...newTask(id, { Snapshot: { ...table, truncate: false, force_parallel: false } }, startMs),
    };
    watch.taskFailed("orders", { ...task, reason: "There is no such table." });
    watch.verified("orders", task, differing);
    watch.parked("orders", [{ schema: "public", table: name }]);
  };
  happen("a");
  expect(told()).toHaveLength(3);
  happen("b");
  watch.setAside("orders", [{ schema: "public", name: "c", reason: "It has no key.", commands: [] }]);
  expect(told().map(({ type }) => type)).toEqual(["table.set_aside"]);
  watch.setAside("orders", [{ schema: "public", name: "d", reason: "It has no key.", commands: [] }]);
  watch.released("orders");
  expect(told().map(({ type, data }) => [type, data.count])).toEqual([
    ["task.failed", 1],
    ["verify.differs", 1],
    ["message.parked", 1],
  ]);
  pass(windowMs);
  expect(told()).toEqual([]);
});

test("of a connector that is deleted nothing more is told", () => {
  const { watch, pass, told } = rig();
  watch.parked("orders", [{ schema: "public", table: "a" }]);
  watch.parked("orders", [{ schema: "public", table: "b" }]);
  watch.forget("orders");
  pass(windowMs);
  expect(told()).toHaveLength(1);
});
