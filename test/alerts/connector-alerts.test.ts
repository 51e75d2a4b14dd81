// Which alerts are due for one connector: once for each change, at most one of a kind in 15 minutes, and never a last word
// that is wrong.

import { expect, test } from "bun:test";
import { type Alert, windowMs } from "../../src/alerts/alert.ts";
import { AlertWatch } from "../../src/alerts/alert-watch.ts";
import { ConnectorAlerts, retryingMs, settledMs } from "../../src/alerts/connector-alerts.ts";
import type { SetAsideTable, Status } from "../../src/connector/status.ts";
import { saying } from "../../src/errors/answer-in-reason.ts";
import { messageKey, rowOf } from "../../src/errors/row-in-reason.ts";

const startMs = Date.parse("2026-01-02T03:04:05.678Z");
const minute = 60_000;

/** A watch whose clock the test moves. It is looked at every 5 seconds, as in the service. */
class Rig {
  nowMs = startMs;
  readonly sent: (Alert & { readonly sentMs: number })[] = [];
  readonly watch = new AlertWatch(
    (alert) => this.sent.push({ ...alert, sentMs: this.nowMs - startMs }),
    () => this.nowMs,
  );

  pass(ms: number): void {
    for (const endMs = this.nowMs + ms; this.nowMs < endMs; this.watch.tick()) {
      this.nowMs = Math.min(endMs, this.nowMs + 5_000);
    }
  }

  report(
    status: Status["status"],
    state: Status["state"] = { realtime: { name: "slot" } },
    id = "orders",
  ): void {
    this.watch.reported(id, { state, status });
  }

  /** What was sent since the last call. */
  get told(): string[] {
    return this.sent.splice(0).map(({ type }) => type);
  }
}

const failed = { failed: { reason: "The password is wrong." } };
const retry = (attempt: number) => ({ retry: { attempt, reason: "Nothing answers." } });
const well = { heartbeat: {} };
const start = { start: {} };

test("a failure is told at once, and its end when the connector has been well for a while", () => {
  const rig = new Rig();
  rig.report(start, start);
  rig.report(well);
  rig.pass(minute);
  expect(rig.told).toEqual([]);
  rig.report(failed);
  rig.report(failed, { scheduled: {} });
  const [alert] = rig.sent;
  expect(alert).toMatchObject({
    type: "connector.failed",
    atMs: startMs + minute,
    sentMs: minute,
    data: { connector_id: "orders", state: "realtime", reason: "The password is wrong." },
    text: "Connector orders has failed: The password is wrong.",
  });
  rig.pass(60 * minute);
  expect(rig.told).toEqual(["connector.failed"]);
  rig.report(start, start);
  rig.report(start, { initialize: { sub_state: "connect", commands: [] } });
  rig.pass(minute);
  expect(rig.told).toEqual([]);
  rig.report(well);
  rig.pass(settledMs);
  expect(rig.sent[0]?.data).toEqual({
    connector_id: "orders",
    state: "realtime",
    recovered_from: "connector.failed",
  });
  rig.pass(60 * minute);
  expect(rig.told).toEqual(["connector.recovered"]);
});

test("retries are told after five minutes, though they stream for a moment between", () => {
  const rig = new Rig();
  for (let attempt = 1; attempt <= 29; attempt++) {
    rig.report(retry(attempt));
    rig.pass(retryingMs / 30 - 5_000);
    rig.report(well);
    rig.pass(5_000);
  }
  expect(rig.told).toEqual([]);
  rig.report(retry(30));
  rig.pass(minute);
  const [alert] = rig.sent;
  expect(alert).toMatchObject({ type: "connector.retrying", atMs: startMs, sentMs: retryingMs });
  expect(alert?.text).toBe(
    "Connector orders has been trying again for 5 minutes (attempt 30): Nothing answers.",
  );
  rig.report(well);
  rig.pass(minute);
  expect(rig.told).toEqual(["connector.retrying", "connector.recovered"]);
});

test("retries that are over within five minutes are not told, nor is their end", () => {
  const rig = new Rig();
  for (let round = 0; round < 20; round++) {
    rig.report(retry(1));
    rig.pass(4 * minute);
    rig.report(well);
    rig.pass(minute);
  }
  expect(rig.told).toEqual([]);
});

/** An attempt of the run works for a while, and fails. The next one follows in 5 seconds. */
function workAndFail(rig: Rig, workedMs: number): void {
  rig.report(well);
  rig.pass(workedMs);
  rig.watch.attemptFailed("orders");
  rig.report(retry(1));
  rig.report(retry(1), { initialize: { sub_state: "connect", commands: [] } });
  rig.pass(5_000);
}

test.each([20, 60, 170])(
  "a run that fails every %d seconds is told of once, and recovers when it fails no more",
  (seconds) => {
    const rig = new Rig();
    rig.report(start, start);
    while (rig.nowMs - startMs < windowMs) workAndFail(rig, seconds * 1_000 - 5_000);
    const [alert, ...more] = rig.sent;
    expect([alert?.type, more]).toEqual(["connector.retrying", []]);
    expect(alert?.sentMs).toBeWithin(retryingMs, windowMs);
    expect(alert?.atMs).toBe(startMs + seconds * 1_000 - 5_000);
    const minutes = Math.floor((alert!.sentMs + startMs - alert!.atMs) / minute);
    expect(alert?.text).toBe(
      `Connector orders has been failing again and again for ${minutes} minutes, and works in between: Nothing answers.`,
    );
    while (rig.nowMs - startMs < 4 * windowMs) workAndFail(rig, seconds * 1_000 - 5_000);
    expect(rig.told).toEqual(["connector.retrying"]);
    rig.report(well);
    const lastMs = rig.nowMs - startMs;
    rig.pass(60 * minute);
    expect(rig.sent[0]?.sentMs).toBeWithin(lastMs + settledMs, lastMs + windowMs);
    expect(rig.told).toEqual(["connector.recovered"]);
  },
);

test("a sink that takes a request at the second attempt now and then is not told of", () => {
  const rig = new Rig();
  for (let round = 0; round < 60; round++) {
    rig.report(well);
    rig.pass(minute);
    rig.report(retry(1));
    rig.pass(5_000);
  }
  expect(rig.told).toEqual([]);
});

test("a start after a failure, or after a stop, counts no failures of before", () => {
  for (const end of [failed, { complete: {} }]) {
    const rig = new Rig();
    for (let round = 0; round < 4; round++) workAndFail(rig, minute);
    rig.report(end, end === failed ? { realtime: { name: "slot" } } : { shutdown: {} });
    rig.report(start, start);
    for (let round = 0; round < 4; round++) workAndFail(rig, minute);
    rig.report(well);
    rig.pass(minute);
    expect(rig.told).toEqual(end === failed ? ["connector.failed", "connector.recovered"] : []);
  }
});

test("retries that end in a failure tell both, and a stop ends neither", () => {
  const rig = new Rig();
  rig.report(retry(1));
  rig.pass(6 * minute);
  rig.report(failed);
  expect(rig.told).toEqual(["connector.retrying", "connector.failed"]);
  rig.report({ complete: {} }, { shutdown: {} });
  rig.pass(60 * minute);
  expect(rig.told).toEqual([]);
  rig.report(start, start);
  rig.report(well);
  rig.pass(minute);
  expect(rig.told).toEqual(["connector.recovered"]);
});

test("a deletion that waits for its source for five minutes is told, and its end is not", () => {
  const rig = new Rig();
  rig.report(well);
  rig.report({ complete: {} }, { shutdown: {} });
  for (let attempt = 1; attempt <= 200; attempt++) {
    rig.report(retry(attempt), { shutdown: {} });
    rig.pass(3_000);
  }
  expect(rig.sent[0]).toMatchObject({ sentMs: retryingMs, data: { state: "shutdown" } });
  rig.watch.forget("orders");
  rig.pass(60 * minute);
  expect(rig.told).toEqual(["connector.retrying"]);
});

test("a flapping connector is told of once in 15 minutes for each kind, and the last word is right", () => {
  const rig = new Rig();
  for (let round = 0; round < 90; round++) {
    rig.report(failed);
    rig.pass(30_000);
    rig.report(well);
    rig.pass(30_000);
  }
  for (const kind of ["connector.failed", "connector.recovered"]) {
    const times = rig.sent.filter(({ type }) => type === kind).map(({ sentMs }) => sentMs);
    expect(times.length).toBeWithin(5, 7);
    for (const [index, time] of times.entries()) {
      if (index > 0) expect(time - times[index - 1]!).toBeGreaterThanOrEqual(windowMs);
    }
  }
  rig.pass(windowMs);
  expect(rig.told.at(-1)).toBe("connector.recovered");
  // Now it stays failed, though nobody could be told when that began.
  rig.report(failed);
  rig.pass(20_000);
  rig.report(well);
  rig.pass(20_000);
  rig.report(failed);
  expect(rig.told.slice(-2)).toEqual(["connector.failed", "connector.recovered"]);
  rig.pass(windowMs);
  expect(rig.told).toEqual(["connector.failed"]);
  rig.pass(60 * minute);
  expect(rig.told).toEqual([]);
});

test("connectors do not take each other's turn, and a deleted one is forgotten", () => {
  const rig = new Rig();
  for (const id of ["a", "b"]) rig.report(failed, { realtime: { name: "s" } }, id);
  expect(rig.sent.map(({ data }) => data.connector_id)).toEqual(["a", "b"]);
  rig.report(retry(1), { realtime: { name: "s" } }, "c");
  for (const id of ["a", "b", "c"]) rig.watch.forget(id);
  rig.sent.length = 0;
  rig.pass(60 * minute);
  expect(rig.told).toEqual([]);
});

test("a log in danger is told once until the danger is over", () => {
  const rig = new Rig();
  const slot = (retainedBytes: number, warning: string | null) =>
    rig.watch.measuredSlot("orders", { retainedBytes, safeBytes: 100, warning });
  slot(10, null);
  slot(60, "Slot s keeps 60 GB. Run: ALTER SYSTEM;");
  slot(70, "Slot s keeps 70 GB. Run: ALTER SYSTEM;");
  rig.pass(60 * minute);
  expect(rig.sent[0]?.data).toEqual({
    connector_id: "orders",
    retained_bytes: 60,
    safe_bytes: 100,
    reason: "Slot s keeps 60 GB. Run: ALTER SYSTEM;",
  });
  expect(rig.told).toEqual(["source.log_in_danger"]);
  slot(10, null);
  slot(61, "Slot s keeps 61 GB.");
  expect(rig.told).toEqual(["source.log_in_danger"]);
});

test("tables that are set aside are told once each, those of a quarter of an hour together", () => {
  const rig = new Rig();
  const table = (name: string): SetAsideTable => ({
    schema: "public",
    name,
    reason: `${name} lacks a column.`,
    commands: ["ALTER TABLE …;"],
  });
  const setAside = (...names: string[]) => rig.watch.setAside("orders", names.map(table));
  setAside("a");
  setAside("a");
  setAside("a", "b");
  setAside("a", "b", "c");
  rig.pass(windowMs);
  expect(rig.sent.map(({ data }) => data.count)).toEqual([1, 2]);
  expect(rig.sent[0]?.text).toBe("Table public.a is set aside by connector orders: a lacks a column.");
  expect(rig.sent[1]?.data.tables).toEqual([table("b"), table("c")]);
  setAside("b");
  rig.pass(windowMs);
  setAside("a", "b");
  expect(rig.sent.map(({ data }) => data.count)).toEqual([1, 2, 1]);
});

test("failed tasks of a quarter of an hour come together, and at most twenty are named", () => {
  const rig = new Rig();
  const fail = (id: string) =>
    rig.watch.taskFailed("orders", {
      id,
      state: "Failed",
      reason: "There is no such table.",
      created_at: "",
      attempt: 1,
      spec: {
        Snapshot: { database: "d", schema: "public", name: "t", truncate: false, force_parallel: false },
      },
    });
  fail("1");
  for (let id = 2; id <= 31; id++) fail(String(id));
  rig.pass(windowMs);
  expect(rig.sent.map(({ data }) => [data.count, (data.tasks as unknown[]).length])).toEqual([
    [1, 1],
    [30, 20],
  ]);
  expect(rig.sent[0]?.text).toBe(
    "The task of table public.t by connector orders failed: There is no such table.",
  );
});

test("no row value is in an alert, and its text is one plain line of bounded length", () => {
  const rig = new Rig();
  const refusal = `Table public.t:\n refused <!channel>${saying("planted too")}.${rowOf("(email)=(planted)")}. Its ${messageKey("planted")}. ${"Mend it. ".repeat(500)}`;
  rig.report({ failed: { reason: refusal } });
  rig.watch.setAside("orders", [{ schema: "public", name: "t", reason: refusal, commands: [] }]);
  rig.watch.taskFailed("orders", {
    id: "1",
    state: "Failed",
    reason: refusal,
    created_at: "",
    attempt: 1,
    spec: {
      Snapshot: { database: "d", schema: "public", name: "t", truncate: false, force_parallel: false },
    },
  });
  expect(rig.sent).toHaveLength(3);
  expect(JSON.stringify(rig.sent)).not.toContain("planted");
  for (const { text } of rig.sent) {
    expect(text).not.toMatch(/[\n<>]/);
    expect(text.length).toBeLessThanOrEqual(1_000);
  }
});

test("parked messages are told once in 15 minutes, by table", () => {
  const alerts = new ConnectorAlerts("orders");
  const table = { schema: "public", name: "orders" };
  alerts.parked({ ...table, messages: 1 }, 1_000);
  const [first] = alerts.due(1_000);
  expect(first).toMatchObject({
    type: "message.parked",
    data: { count: 1, tables: [{ ...table, messages: 1 }] },
  });
  expect(first!.text).toBe(
    'A message of public.orders was parked by connector orders: it was refused. "millrace parked list orders" shows what is parked.',
  );
  alerts.parked({ ...table, messages: 2 }, 2_000);
  alerts.parked({ ...table, messages: 3 }, 3_000);
  expect(alerts.due(3_000)).toEqual([]);
  const [second] = alerts.due(1_000 + 15 * 60_000);
  expect(second).toMatchObject({ atMs: 2_000, data: { count: 5 } });
});

test("a clock that is set back by an hour holds up neither a recovery nor what fails again", () => {
  const rig = new Rig();
  rig.report(retry(3));
  rig.pass(retryingMs);
  expect(rig.told).toEqual(["connector.retrying"]);
  rig.report({});
  rig.nowMs -= 60 * minute;
  rig.pass(settledMs + 5_000);
  expect(rig.told).toEqual(["connector.recovered"]);
  rig.report(retry(3));
  rig.nowMs -= 60 * minute;
  rig.pass(retryingMs + 5_000);
  expect(rig.told).toEqual(["connector.retrying"]);
});
