// Replays to Kafka: messages that come again under load and kill -9 have versions above all that their keys had, and what a consumer holds
// is the source.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { slotName } from "../../src/connector/connector-id.ts";
import { replayResultOf, type Task } from "../../src/connector/task.ts";
import type { ApiClient } from "../../src/demo/api-client.ts";
import type { ServiceProcess } from "../../src/demo/service-process.ts";
import { untilDurable } from "../support/kafka/fault-rig.ts";
import { KafkaCluster } from "../support/kafka/kafka-cluster.ts";
import { readTopic, type TopicMessage } from "../support/kafka/kafka-reader.ts";
import { builtStage } from "../support/program/built-stage.ts";
import type { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";
import {
  askForReplay,
  changesOfLarge,
  largeTable,
  rowsOfLarge,
  untilOver,
} from "../support/webhook/replay-tasks.ts";

const path = "/api/v1/connectors/again";
const rows = 30_000;
const stack = new AsyncDisposableStack();
let server: PostgresServer;
let cluster: KafkaCluster;
let service: ServiceProcess;
let api: ApiClient;

const sql = <R extends object>(text: string) => server.query<R>(text, "shop");

beforeAll(async () => {
  const stage = await builtStage({
    databases: ["shop"],
    source: `create table nudge (id int primary key, n int not null); insert into nudge values (1, 0);
     create table few (id uuid primary key, v text); insert into few values ('0195d3ab-0000-7000-8000-000000000001', 'a');
     ${largeTable(rows, 600)}`,
  });
  ({ server, service, api } = stack.use(stage));
  cluster = stack.use(await KafkaCluster.start());
  const connection = server.connection("shop");
  await api.createConnector("again", {
    source: { postgres: { connection, replication_type: { logical_replication: {} } } },
    sink: {
      kafka: {
        connection: { brokers: cluster.bootstrap },
        format: { native: {} },
        topic_options: { partitions: 3 },
      },
    },
  });
  await waitFor("the stream", async () => (await api.connector("again")).status.state.realtime, {
    timeoutMs: 120_000,
  });
});
afterAll(() => stack.disposeAsync());

const replay = (spec: object) => askForReplay(api, "again", spec);
const over = (id: string) => untilOver(api, "again", id);

interface Value {
  readonly id: unknown;
  readonly v: unknown;
  readonly _sm_version: number;
  readonly _sm_deleted: boolean;
}

const messagesOf = (table: string) =>
  readTopic(cluster, `millrace.public.${table}`, { isolation: "read_committed" });

const rowOf = ({ value }: TopicMessage) => value && (JSON.parse(value.toString()) as Value);

const idempotencyKey = ({ headers }: TopicMessage) =>
  headers.find(([name]) => name === "Idempotency-Key")?.[1]?.toString();

test("rows come again by their keys, with keys of their own", async () => {
  const id = "0195d3ab-0000-7000-8000-000000000001";
  const other = "0195d3ab-0000-7000-8000-000000000002";
  const done = await over((await replay({ name: "few", keys: [{ id }, { id: other }] })).id);
  expect(replayResultOf(done)).toMatchObject({ rows: 1, missing: [{ id: other }] });
  expect(await over((await replay({ name: "few" })).id)).toMatchObject({ state: "Done" });
  const messages = await messagesOf("few");
  const values = messages.map(rowOf);
  expect(values).toMatchObject([
    { id, v: "a" },
    { id, v: "a" },
    { id, v: "a" },
  ]);
  const versions = values.map((value) => value?._sm_version ?? 0);
  expect(versions).toEqual(versions.toSorted((a, b) => a - b));
  expect(new Set(versions).size).toBe(3);
  expect(new Set(messages.map(idempotencyKey)).size).toBe(3);
});

test("killed amid a replay under load: each key's versions only grow, and what is held last is the source", async () => {
  const changes = changesOfLarge(server, rows);
  const begun = await replay({ name: "large" });
  for (let kill = 0; kill < 2; kill++) {
    const isRunning = async () => {
      const { state, progress } = await api.call<Task>("GET", `${path}/tasks/${begun.id}`);
      return state === "Done" || (state === "Running" && (progress?.rows ?? 0) > 0);
    };
    await waitFor("some of it", isRunning, { timeoutMs: 60_000, intervalMs: 10 });
    await service.kill();
    await service.launch();
  }
  expect(await over(begun.id)).toMatchObject({ state: "Done" });
  await changes[Symbol.asyncDispose]();
  await untilDurable((text) => sql(text), slotName("again"), "the load", 120_000);
  const held = new Map<unknown, Value>();
  const keys = new Map<string, string>();
  let again = 0;
  for (const message of await messagesOf("large")) {
    const value = rowOf(message);
    const key = message.key?.toString() ?? "";
    const before = held.get(key);
    if (!value) continue;
    expect([key, value._sm_version]).toEqual([key, Math.max(value._sm_version, before?._sm_version ?? 0)]);
    held.set(key, value);
    // A key that comes again is of the same row.
    const own = idempotencyKey(message) ?? "";
    if (keys.has(own)) again++;
    expect(keys.get(own) ?? key).toBe(key);
    keys.set(own, key);
  }
  const source = await rowsOfLarge(server);
  const alive = [...held.values()].filter(({ _sm_deleted: isDeleted }) => !isDeleted);
  expect(alive.map(({ id, v }) => ({ id, v })).toSorted((a, b) => Number(a.id) - Number(b.id))).toEqual(
    source as readonly object[] as { id: unknown; v: unknown }[],
  );
  // What was committed before a kill does not come again, but for the range that was under way.
  expect(again).toBeLessThan(rows);
});
