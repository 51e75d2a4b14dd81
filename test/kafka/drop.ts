// What is left of a Kafka connector when it is deleted, or begins anew at other brokers: its topics, and nothing of its record.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { resolveSink } from "../../src/connector/request/resolve-connector.ts";
import type { ApiClient } from "../../src/demo/api-client.ts";
import { freePort } from "../../src/demo/free-port.ts";
import type { ServiceProcess } from "../../src/demo/service-process.ts";
import { dropCheckpoint } from "../../src/sink/kafka/checkpoint/drop-checkpoint.ts";
import { KafkaCluster } from "../support/kafka/kafka-cluster.ts";
import { readTopic } from "../support/kafka/kafka-reader.ts";
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
});

afterAll(() => stack.disposeAsync());

function configuration(brokers: readonly string[]) {
  const connection = server.connection("shop");
  return {
    source: { postgres: { connection, replication_type: { logical_replication: {} } } },
    sink: { kafka: { connection: { brokers: [...brokers] }, format: { native: {} }, topic_options: {} } },
  };
}

const untilRealtime = (id: string) =>
  waitFor("the stream", async () => (await api.connector(id)).status.state.realtime !== undefined, {
    timeoutMs: 60_000,
  });

/** What is left of each key once the topic is compacted. */
async function records(of: KafkaCluster): Promise<Map<string, string | null>> {
  const messages = await readTopic(of, "millrace.checkpoints", { isolation: "read_committed" });
  return new Map(messages.map(({ key, value }) => [String(key), value?.toString() ?? null]));
}

test("a connector that is deleted leaves its topics alone", async () => {
  await api.createConnector("first", configuration(cluster.bootstrap));
  await api.createConnector("first-of-two", configuration(cluster.bootstrap));
  await untilRealtime("first");
  await untilRealtime("first-of-two");
  const before = await records(cluster);
  expect([...before.keys()].filter((key) => key.startsWith("first ")).length).toBeGreaterThan(0);
  await api.deleteConnector("first");
  await waitFor("the deletion", async () => !(await api.exists("first")));
  const left = [...(await records(cluster))].filter(([, value]) => value !== null).map(([key]) => key);
  expect(left.length).toBeGreaterThan(0);
  expect(left.filter((key) => key !== "first-of-two" && !key.startsWith("first-of-two "))).toEqual([]);
  expect(await cluster.topics()).toContain("millrace.public.t");
  expect((await readTopic(cluster, "millrace.public.t", { isolation: "read_committed" })).length).toBe(200);
});

test("one that begins anew at other brokers leaves nothing at the earlier ones", async () => {
  await using other = await KafkaCluster.start();
  await api.createConnector("moved", configuration(cluster.bootstrap));
  await untilRealtime("moved");
  expect((await records(cluster)).get("moved")).toBeString();
  const response = await fetch(`${service.url}/api/v1/connectors/moved`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ id: "moved", ...configuration(other.bootstrap) }),
  });
  expect(response.ok, await response.text()).toBeTrue();
  await waitFor("a checkpoint at the other brokers", async () => {
    const topics = await other.topics();
    return topics.includes("millrace.checkpoints") && (await records(other)).get("moved");
  });
  const left = [...(await records(cluster))].filter(
    ([key, value]) => value !== null && key.startsWith("moved"),
  );
  expect(left).toEqual([]);
  await api.deleteConnector("moved");
  await waitFor("the deletion", async () => !(await api.exists("moved")));
});

test("brokers that are away: an error that says what stays, within the signal", async () => {
  const connection = { brokers: [`127.0.0.1:${await freePort()}`] };
  const sink = resolveSink({ kafka: { connection, format: { native: {} }, topic_options: {} } }, null).kafka!;
  const began = performance.now();
  const refused = dropCheckpoint(sink, "gone", AbortSignal.timeout(4_000));
  expect(refused).rejects.toMatchObject({ code: "sink_unreachable" });
  await refused.catch(() => {});
  expect(performance.now() - began).toBeLessThan(5_500);
  cluster.freeze(1);
  try {
    const frozen = { ...sink, connection: { ...sink.connection, brokers: cluster.bootstrap } };
    const silent = await dropCheckpoint(frozen, "gone", AbortSignal.timeout(1_000)).catch((error) => error);
    expect(silent).toMatchObject({ code: "sink_unreachable" });
    expect(silent.message).toContain("stays in topic millrace.checkpoints, under key gone");
  } finally {
    cluster.thaw(1);
  }
});
