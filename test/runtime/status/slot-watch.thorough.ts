// Slots of connectors that do not run: what their sources keep is asked for, and told as of those that run.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Alert } from "../../../src/alerts/alert.ts";
import { AlertWatch } from "../../../src/alerts/alert-watch.ts";
import type { ConnectorRequest } from "../../../src/connector/connector.ts";
import type { ConnectorStatus } from "../../../src/connector/status.ts";
import type { KeptLog } from "../../../src/source/source.ts";
import { sampleRequest } from "../../support/api/sample-connector.ts";
import { runMetrics } from "../../support/pipeline/run-metrics.ts";
import { RuntimeFixture } from "../../support/runtime/runtime-fixture.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

setDefaultTimeout(120_000);

const pace = { lookMs: 20, everyMs: 100, answerMs: 10_000 };
const megabyte = 1024 ** 2;
let server: PostgresServer;

beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off", max_slot_wal_keep_size: "64MB" } });
});
afterAll(() => server[Symbol.asyncDispose]());

/** The gauge of the connector; null: it has none. */
async function gauge(runtime: RuntimeFixture, name: string, id = "orders"): Promise<number | null> {
  const series = `millrace_${name}{connector="${id}"} `;
  const line = (await runtime.metrics.text()).split("\n").find((text) => text.startsWith(series));
  return line === undefined ? null : Number(line.slice(series.length));
}

async function until(
  runtime: RuntimeFixture,
  what: string,
  isSo: (status: ConnectorStatus) => unknown,
  id = "orders",
): Promise<ConnectorStatus> {
  return await waitFor(what, async () => {
    const { status } = await runtime.connectors.get(id);
    return isSo(status) ? status : null;
  });
}

const write = (megabytes: number, database: string) =>
  server.query(
    `select pg_logical_emit_message(false, 'x', repeat('x', 1000000)) from generate_series(1, ${megabytes})`,
    database,
  );

/** A connector that streams from the database of its name. */
async function streaming(runtime: RuntimeFixture, id: string): Promise<Alert[]> {
  const alerts: Alert[] = [];
  runtime.board.addWatch(new AlertWatch((alert) => alerts.push(alert), Date.now));
  for (const name of [id, `${id}_copy`]) await server.createDatabase(name);
  await server.query("create table t (id int primary key)", id);
  const { host, port, user, password } = server;
  const connection = (name: string) => ({ host, port, user, password, database: name });
  const replication_type = { logical_replication: {} };
  const request: ConnectorRequest = {
    id,
    source: { postgres: { connection: connection(id), replication_type } },
    sink: { postgres: { connection: connection(`${id}_copy`) } },
  };
  await runtime.connectors.createOrReplace(id, request, null);
  await until(runtime, "the stream", ({ state }) => state.realtime, id);
  return alerts;
}

test("what the source keeps for a stopped connector is told, warned of and an alert, until a run asks itself", async () => {
  await using runtime = await RuntimeFixture.open("real", pace);
  const alerts = await streaming(runtime, "stopped");
  await waitFor("the run's answer", () => gauge(runtime, "slot_retained_bytes", "stopped"));
  await runtime.connectors.command("stopped", "Stop");
  await until(runtime, "the stop", ({ state }) => state.shutdown, "stopped");
  await write(10, "stopped");
  await waitFor(
    "what it keeps",
    async () => ((await gauge(runtime, "slot_retained_bytes", "stopped")) ?? 0) > 9 * megabyte,
  );
  expect(await gauge(runtime, "lag_bytes", "stopped")).toBeNull();
  expect([alerts, (await runtime.connectors.get("stopped")).status.status]).toEqual([[], { complete: {} }]);
  const safe = (await gauge(runtime, "slot_safe_bytes", "stopped")) ?? 0;
  await write(30, "stopped");
  const warned = await until(runtime, "the warning", ({ status }) => status.warning, "stopped");
  expect(warned.status.warning?.reason).toContain(
    "the slot is lost; then send Resume, or ReInitialize where the sink is no Postgres",
  );
  expect(await gauge(runtime, "slot_safe_bytes", "stopped")).toBeLessThan(safe);
  expect(alerts.map(({ type }) => type)).toEqual(["source.log_in_danger"]);
  // The record is read again.
  runtime.supervisor.reconcile("stopped");
  await runtime.supervisor.settled("stopped", 10_000);
  await runtime.board.flush();
  const history = (await runtime.connectors.history("stopped")).map(
    ({ status }) => Object.keys(status.status)[0],
  );
  expect(history.slice(history.lastIndexOf("complete"))).toEqual(["complete", "warning"]);
  // A service that starts anew knows of it, too.
  await runtime.restart();
  await waitFor(
    "its answer",
    async () => ((await gauge(runtime, "slot_retained_bytes", "stopped")) ?? 0) > 32 * megabyte,
  );
  await until(runtime, "the warning", ({ state, status }) => state.shutdown && status.warning, "stopped");
  await runtime.connectors.command("stopped", "Start");
  await until(runtime, "the stream", ({ state, status }) => state.realtime && !status.warning, "stopped");
  await waitFor("what it acknowledges", () =>
    gauge(runtime, "lag_bytes", "stopped").then((bytes) => bytes === 0),
  );
});

test("of a connector that has failed, too, and its status goes on showing the failure", async () => {
  await using runtime = await RuntimeFixture.open("real", pace);
  const alerts = await streaming(runtime, "failed");
  await server.query("drop publication millrace_failed", "failed");
  await server.query("select pg_terminate_backend(active_pid) from pg_replication_slots where active");
  await until(runtime, "the failure", ({ status }) => status.failed, "failed");
  await write(40, "failed");
  await waitFor("the alert", () => alerts.find(({ type }) => type === "source.log_in_danger"));
  expect(await gauge(runtime, "slot_retained_bytes", "failed")).toBeGreaterThan(32 * megabyte);
  const { status } = (await runtime.connectors.get("failed")).status;
  expect(Object.keys(status)).toEqual(["failed"]);
});

const kept = (bytes: number, warning: string | null = null): KeptLog => ({ bytes, safeBytes: null, warning });

/** A connector that has begun, in a runtime whose worker does what `script` says. */
async function begun(runtime: RuntimeFixture, script: string): Promise<void> {
  await runtime.connectors.createOrReplace("orders", { ...sampleRequest(), name: script }, null);
  const { run_id } = await runtime.connectors.get("orders");
  await runtime.state.connectors.markInitialized("orders", run_id, null);
}

test("before there is an answer nothing of a run that is over is told, and an answer that comes too late is dropped", async () => {
  await using runtime = await RuntimeFixture.open("scripted", pace);
  const answer = Promise.withResolvers<KeptLog>();
  let asked = 0;
  runtime.keptLog = () => {
    asked += 1;
    return answer.promise;
  };
  await begun(runtime, "stay");
  const measured = async (retainedBytes: number) => {
    const { run_id } = await runtime.connectors.get("orders");
    const slot = { retainedBytes, safeBytes: 5, warning: null };
    runtime.board.measured("orders", run_id, runMetrics({ slot, lagBytes: 7 }));
  };
  await until(runtime, "the stream", ({ state }) => state.realtime);
  await measured(1);
  const gauges = () =>
    Promise.all(["slot_retained_bytes", "slot_safe_bytes", "lag_bytes"].map((name) => gauge(runtime, name)));
  expect(await gauges()).toEqual([1, 5, 7]);
  expect(asked).toBe(0);
  await runtime.connectors.command("orders", "Stop");
  await waitFor("the question", () => asked > 0);
  expect(await gauges()).toEqual([null, null, null]);
  await runtime.connectors.command("orders", "Start");
  await until(runtime, "the stream", ({ state }) => state.realtime);
  await measured(2);
  answer.resolve(kept(9_999, "much"));
  await Bun.sleep(5 * pace.lookMs);
  expect(await gauges()).toEqual([2, 5, 7]);
  expect((await runtime.connectors.get("orders")).status.status).toEqual({ heartbeat: {} });
});

test("a warning is told once though its numbers rise, and taken back when it is over, or the slot is gone", async () => {
  await using runtime = await RuntimeFixture.open("scripted", pace);
  let answer: KeptLog | null = kept(1, "It keeps 12 GB");
  let asked = 0;
  runtime.keptLog = async () => {
    asked += 1;
    return answer;
  };
  await begun(runtime, "stay");
  await until(runtime, "the stream", ({ state }) => state.realtime);
  await runtime.connectors.patch("orders", { disabled: true });
  await until(runtime, "the warning", ({ state, status }) => state.disabled && status.warning);
  answer = kept(2, "It keeps 13 GB");
  await waitFor("it", () => gauge(runtime, "slot_retained_bytes").then((bytes) => bytes === 2));
  expect((await runtime.connectors.get("orders")).status.status.warning?.reason).toBe("It keeps 12 GB");
  answer = null;
  await until(runtime, "its end", ({ state, status }) => state.disabled && status.complete);
  expect(await gauge(runtime, "slot_retained_bytes")).toBeNull();
  const told = (await runtime.connectors.history("orders")).map(
    ({ status }) => Object.keys(status.status)[0],
  );
  expect(told.slice(-3)).toEqual(["complete", "warning", "complete"]);
  // Each connector once in a while.
  const [before, from] = [asked, performance.now()];
  await waitFor("some more", () => asked >= before + 4);
  expect(performance.now() - from).toBeGreaterThan(3 * pace.everyMs);
});

test("a source that is away takes its gauges along and makes no noise, and holds up neither others nor the end", async () => {
  const runtime = await RuntimeFixture.open("scripted", { ...pace, answerMs: 300 });
  await using _runtime = runtime;
  let isAway = false;
  let aborted = 0;
  runtime.keptLog = async (_connector, signal) => {
    if (!isAway) return kept(3);
    // It does not even hear that nobody waits any more.
    signal.addEventListener("abort", () => aborted++);
    return await new Promise<never>(() => {});
  };
  await begun(runtime, "stay");
  await runtime.connectors.command("orders", "Stop");
  await waitFor("its answer", () => gauge(runtime, "slot_retained_bytes"));
  isAway = true;
  await waitFor("nothing", async () => (await gauge(runtime, "slot_retained_bytes")) === null);
  const lines = runtime.lines.length;
  await waitFor("some more questions", () => aborted >= 3);
  expect(runtime.lines.slice(lines)).toEqual([]);
  isAway = false;
  await waitFor("its answer", () => gauge(runtime, "slot_retained_bytes"));
  isAway = true;
  await Bun.sleep(2 * pace.everyMs);
  const from = performance.now();
  await runtime.slots[Symbol.asyncDispose]();
  expect(performance.now() - from).toBeLessThan(250);
});

test("a run that fails again and again is asked for once its last answer is old", async () => {
  await using runtime = await RuntimeFixture.open("scripted", { ...pace, everyMs: 1_000 });
  runtime.keptLog = async () => kept(4, "much");
  const from = performance.now();
  await begun(runtime, "unreachable");
  await until(runtime, "the retry", ({ status }) => status.retry);
  await waitFor("its answer", () => gauge(runtime, "slot_retained_bytes"));
  expect(performance.now() - from).toBeGreaterThan(1_000);
  expect(runtime.runs).toBeGreaterThan(1);
  // An attempt may be under way.
  await until(runtime, "the retry after it", ({ status }) => status.retry);
});

test("nobody asks for a connector that never made a slot, that is being deleted, or that another replica holds", async () => {
  await using runtime = await RuntimeFixture.open("scripted", pace);
  const asked: string[] = [];
  runtime.keptLog = async ({ id }) => {
    asked.push(id);
    return kept(5);
  };
  const disabled = { ...sampleRequest(), disabled: true };
  for (const id of ["new", "held", "deleted"]) await runtime.connectors.createOrReplace(id, disabled, null);
  for (const id of ["held", "deleted"]) {
    const { run_id } = await runtime.connectors.get(id);
    await runtime.state.connectors.markInitialized(id, run_id, null);
  }
  await waitFor("both", () => asked.includes("held") && asked.includes("deleted"));
  runtime.isSourceAway = true;
  runtime.board.release("held");
  await runtime.connectors.command("deleted", "Delete");
  await waitFor("the deletion to wait", () => runtime.board.status("deleted").status.retry);
  asked.length = 0;
  await Bun.sleep(5 * pace.everyMs);
  expect(asked).toEqual([]);
  expect(runtime.slots.slotOf("held")).toBeNull();
});
