// What a Kafka connector says of itself: its measurements, and brokers that are in trouble.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { ApiClient } from "../../src/demo/api-client.ts";
import type { ServiceProcess } from "../../src/demo/service-process.ts";
import { KafkaCluster } from "../support/kafka/kafka-cluster.ts";
import { builtStage } from "../support/program/built-stage.ts";
import type { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

const stack = new AsyncDisposableStack();
let server: PostgresServer;
let cluster: KafkaCluster;
let service: ServiceProcess;
let api: ApiClient;

beforeAll(async () => {
  const source =
    "create table t (id int primary key, v text); insert into t select i, 'a' from generate_series(1, 100) i";
  ({ server, service, api } = stack.use(await builtStage({ databases: ["shop"], source })));
  cluster = stack.use(await KafkaCluster.start());
  const connection = server.connection("shop");
  await api.createConnector("told", {
    source: { postgres: { connection, replication_type: { logical_replication: {} } } },
    sink: {
      kafka: { connection: { brokers: cluster.bootstrap }, format: { native: {} }, topic_options: {} },
    },
  });
  await untilRealtime();
});

afterAll(() => stack.disposeAsync());

const untilRealtime = () =>
  waitFor(
    "the stream",
    async () => {
      const { state, status } = (await api.connector("told")).status;
      return state.realtime !== undefined && status.retry === undefined;
    },
    { timeoutMs: 60_000 },
  );

async function metric(name: string): Promise<number | null> {
  const text = await (await fetch(`${service.url}/metrics`)).text();
  const line = text.split("\n").find((each) => each.startsWith(`${name}{connector="told"}`));
  return line === undefined ? null : Number(line.split(" ").at(-1));
}

const retrying = () =>
  waitFor("a retry", async () => (await api.connector("told")).status.status.retry?.reason, {
    timeoutMs: 60_000,
  });

test("messages and transactions are counted, and no webhook requests", async () => {
  await waitFor("the counters", async () => ((await metric("millrace_kafka_messages_total")) ?? 0) > 100);
  expect(await metric("millrace_kafka_sent_bytes_total")).toBeGreaterThan(1_000);
  expect(await metric("millrace_kafka_commit_seconds_count")).toBeGreaterThan(0);
  expect(await metric("millrace_kafka_fencings_total")).toBe(0);
  expect(await metric("millrace_requests_total")).toBe(0);
});

test("the doctor finds nothing wrong", async () => {
  const response = await fetch(`${service.url}/api/v1/doctor?connector_id=told`);
  const findings = (await response.json()) as { about: string; severity: string; finding: string }[];
  const sink = findings.filter(({ about }) => about === "sink");
  expect(sink).toMatchObject([{ severity: "ok" }]);
  expect(sink[0]!.finding).toMatch(/^Every check has passed \(Kafka 4\.3 .*1 broker\)\.$/);
});

test("a broker that is silent, and one that is away, are told, with the address", async () => {
  cluster.freeze(1);
  await server.query("insert into t values (200, 'b')", "shop");
  cluster.thaw(1);
  await untilRealtime();
  await cluster.kill(1);
  await server.query("insert into t values (201, 'c')", "shop");
  expect(await retrying()).toContain(cluster.bootstrap[0]!);
  await cluster.restart(1);
  await untilRealtime();
  await waitFor("the retries", async () => ((await metric("millrace_kafka_retries_total")) ?? 0) > 0);
});
