// What the built program tells without being asked: alerts to a receiver, and metrics to an OTLP collector.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";
import { WebhookReceiver } from "../support/webhook/webhook-receiver.ts";

const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const planted = "planted-k3y";
let server: PostgresServer;
let receiver: WebhookReceiver;
let collector: WebhookReceiver;
let service: ServiceProcess;
let directory: string;

beforeAll(async () => {
  const binary = await compiledBinary();
  const settings = { fsync: "off", max_slot_wal_keep_size: "64MB" };
  const hba = ["host all scram all scram-sha-256", "host all postgres all trust"];
  server = await PostgresServer.start({ settings, hba });
  for (const name of ["shop", "copy"]) await server.createDatabase(name);
  await server.query("create table orders (id int primary key); insert into orders values (1)", "shop");
  await server.query("create role scram superuser login password 'right'");
  [receiver, collector] = [await WebhookReceiver.start(), await WebhookReceiver.start()];
  directory = await mkdtemp(join(tmpdir(), "millrace-alerts-"));
  service = await ServiceProcess.start({
    command: [binary],
    environment: {
      MILLRACE_ALERT_URL: `${receiver.url}/hooks/${planted}`,
      MILLRACE_ALERT_SECRET: secret,
      OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/otlp`,
      OTEL_EXPORTER_OTLP_HEADERS: `api-key=${planted}`,
      OTEL_METRIC_EXPORT_INTERVAL: "1000",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment=test",
    },
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
  });
}, 120_000);

afterAll(async () => {
  for (const each of [service, receiver, collector, server]) await each[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function call(method: string, path: string, body?: object): Promise<void> {
  const headers = { "content-type": "application/json" };
  const request = { method, headers, ...(body && { body: JSON.stringify(body) }) };
  const response = await fetch(`${service.url}/api/v1/${path}`, request);
  expect([response.ok, response.ok || (await response.text())]).toEqual([true, true]);
}

const connection = (change: object) => ({ ...server.connection("shop"), password: planted, ...change });
const source = () => ({
  postgres: { connection: connection({}), replication_type: { logical_replication: {} } },
});
const postgresSink = (change: object) => ({
  postgres: {
    connection: connection({ database: "copy", ...change }),
    migration_strategy: { disable_all: true },
  },
});

async function create(id: string, sink: object): Promise<void> {
  await call("POST", `connectors/${id}`, { id, source: source(), sink });
}

/** More than half of what a slot may keep. */
const growth = "select pg_logical_emit_message(false, 'x', repeat('x', 1000000)) from generate_series(1, 40)";

interface Told {
  readonly type: string;
  readonly data: Record<string, unknown>;
  readonly text: string;
}

/** Every alert that was delivered, its signature checked. */
function alerts(): Told[] {
  return receiver.delivered.map(({ body, headers }) => new Webhook(secret).verify(body, headers) as Told);
}

async function alertOf(type: string, connector: string, timeoutMs = 60_000): Promise<Told> {
  const isMeant = (alert: Told) => alert.type === type && alert.data.connector_id === connector;
  return await waitFor(`${type} of ${connector}`, () => alerts().find(isMeant), { timeoutMs });
}

test("a connector whose sink refuses its password is told of, and its recovery, its tasks and tables", async () => {
  await create("orders", postgresSink({ user: "scram" }));
  const failure = await alertOf("connector.failed", "orders");
  expect(failure.text).toStartWith("Connector orders has failed: ");
  expect(failure.data.reason).toContain("refused the user name, the password");

  await call("PATCH", "connectors/orders", { sink: { postgres: { connection: { password: "right" } } } });
  const recovery = await alertOf("connector.recovered", "orders");
  expect(recovery.data).toMatchObject({ recovered_from: "connector.failed" });

  await call("POST", "connectors/orders/tasks", { Snapshot: { schema: "public", name: "missing" } });
  const { data } = await alertOf("task.failed", "orders");
  expect(data).toMatchObject({ count: 1, tasks: [{ schema: "public", name: "missing" }] });

  await server.query("alter table orders add note text; insert into orders values (2, 'x')", "shop");
  const { data: tables } = await alertOf("table.set_aside", "orders");
  expect(tables).toMatchObject({ count: 1, tables: [{ schema: "public", name: "orders" }] });
}, 120_000);

test("a sink that takes nothing while its source's log grows puts the log in danger", async () => {
  await using hanging = await WebhookReceiver.start({ script: () => ({ kind: "hang" }) });
  const webhook = { url: hanging.url };
  await create("hooks", { webhook });
  await hanging.until(() => hanging.requests.length > 0, 30_000);
  await server.query(growth, "shop");
  const { data, text } = await alertOf("source.log_in_danger", "hooks");
  expect(data.retained_bytes).toBeGreaterThan(32_000_000);
  expect(text).toContain("max_slot_wal_keep_size");
  await call("DELETE", "connectors/hooks");
}, 120_000);

test("the log that a stopped connector makes its source keep is told of, too", async () => {
  await using willing = await WebhookReceiver.start();
  await create("idle", { webhook: { url: willing.url } });
  await willing.until(() => willing.requests.length > 0, 30_000);
  await call("POST", "connector/command/idle", { command: "Stop" });
  await server.query(growth, "shop");
  const { data } = await alertOf("source.log_in_danger", "idle", 100_000);
  const retained = Number(data.retained_bytes);
  expect(retained).toBeGreaterThan(32_000_000);
  const metrics = await fetch(`${service.url}/metrics`).then((response) => response.text());
  expect(metrics).toContain(`millrace_slot_retained_bytes{connector="idle"} ${retained}\n`);
  await call("DELETE", "connectors/idle");
}, 120_000);

test("metrics arrive at the collector, with its headers, and each alert was one", async () => {
  await collector.until(() => collector.requests.length > 2);
  const { path, headers, body } = collector.requests.at(-1)!;
  expect([path, headers["api-key"]]).toEqual(["/otlp/v1/metrics", planted]);
  const [{ resource, scopeMetrics }] = JSON.parse(body).resourceMetrics;
  expect(resource.attributes).toContainEqual({
    key: "deployment.environment",
    value: { stringValue: "test" },
  });
  const names = scopeMetrics[0].metrics.map(({ name }: { name: string }) => name);
  for (const name of ["millrace_connector_status", "millrace_rows_durable_total", "millrace_write_seconds"]) {
    expect(names).toContain(name);
  }
  const told = alerts().map(({ type, data }) => `${type} ${data.connector_id}`);
  expect(told.toSorted()).toEqual([...new Set(told)].toSorted());
});

test("the root tells where the metrics are", async () => {
  const about = await fetch(service.url).then((response) => response.json());
  expect(about).toMatchObject({ name: "millrace", links: { metrics: "/metrics" } });
});

test("with a receiver and a collector that hang, SIGTERM still ends it in order", async () => {
  receiver.script = () => ({ kind: "hang" });
  collector.script = () => ({ kind: "hang" });
  const before = receiver.requests.length;
  await create("bad", postgresSink({ user: "scram" }));
  await receiver.until(() => receiver.requests.length > before, 30_000);
  const from = performance.now();
  expect(await service.stop()).toEqual({ code: 0, signal: null });
  expect(performance.now() - from).toBeLessThan(9_000);
  expect(service.log).not.toContain(planted);
  expect(receiver.requests.map(({ body }) => body).join()).not.toContain(planted);
}, 60_000);
