// A connector carries rows over every kind of listener, in every compression, format and serde. The messages are read by Apache's client.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KafkaSinkRequest } from "../../src/connector/config/kafka-config.ts";
import type { KafkaListener } from "../support/kafka/broker-properties.ts";
import { KafkaCluster } from "../support/kafka/kafka-cluster.ts";
import { readTopic, type TopicMessage } from "../support/kafka/kafka-reader.ts";
import { avroType, decodeMessage } from "../support/rows/avro-decoding.ts";
import { SchemaRegistryDouble } from "../support/rows/schema-registry.ts";
import { LiveRun } from "../support/runtime/live-run.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

type Connection = KafkaSinkRequest["connection"];
type Sink = Omit<KafkaSinkRequest, "connection">;

const database = "shop";
const password = "alice's secret";
const rows = 300;
let server: PostgresServer;
let cluster: KafkaCluster;
let registry: SchemaRegistryDouble;
let directory: string;
let connectors = 0;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-kafka-"));
  registry = new SchemaRegistryDouble();
  [server, cluster] = await Promise.all([
    PostgresServer.start(),
    KafkaCluster.start({
      listeners: ["SSL", "MTLS", "SASL_PLAINTEXT", "SASL_SSL"],
      users: { alice: password },
    }),
  ]);
  await server.createDatabase(database);
  await server.query(
    `CREATE TABLE item (id bigint PRIMARY KEY, name text, price numeric(10,2), at timestamptz);
     INSERT INTO item SELECT g, 'item ' || g, g / 100.0, '2026-01-02 03:04:05.678901+00' FROM generate_series(1, ${rows}) g`,
    database,
  );
});

afterAll(async () => {
  await Promise.all([server, cluster, registry].map((each) => each?.[Symbol.asyncDispose]()));
  await rm(directory, { recursive: true });
});

/** The messages of a connector that copied the table, and then saw a change of each kind. */
async function carried(connection: Partial<Connection>, sink: Partial<Sink> = {}, most = 6) {
  const id = `k${++connectors}`;
  const topic = `${id}.item`;
  await using run = LiveRun.start({
    id,
    source: {
      postgres: {
        connection: server.connection(database),
        replication_type: { logical_replication: {} },
      },
    },
    sink: {
      kafka: {
        connection: { brokers: [...cluster.bootstrap], config: { linger_ms: 5 }, ...connection },
        format: { native: {} },
        topic_options: {},
        topic_name_template: `${id}.{table}`,
        ...sink,
      },
    },
  });
  await run.untilRealtime();
  // A change of the key is two messages and a tombstone, a DELETE one and a tombstone.
  await server.query(
    `INSERT INTO item VALUES (0, 'new', 1, now()); UPDATE item SET name = 'changed' WHERE id = 0;
     UPDATE item SET id = -1 WHERE id = 0; DELETE FROM item WHERE id = -1`,
    database,
  );
  let messages: TopicMessage[] = [];
  await waitFor(`messages in ${topic}`, async () => {
    messages = await readTopic(cluster, topic, { isolation: "read_committed" });
    return messages.length >= rows + most + 1;
  });
  expect(messages).toHaveLength(rows + most + 1);
  return messages;
}

const isWhole = (messages: readonly TopicMessage[]) => {
  const ids = messages.slice(0, rows).map(({ key }) => Number(JSON.parse(String(key)).id));
  expect(ids.toSorted((a, b) => a - b)).toEqual(Array.from({ length: rows }, (_, i) => i + 1));
  expect(messages.slice(rows).map(({ value }) => value && JSON.parse(String(value))._sm_deleted)).toEqual([
    ...[false, false, true, null, false, true, null],
  ]);
};
const at = (listener: KafkaListener) => [...cluster.addresses(listener)];
const byName = (brokers: string[]) => brokers.map((broker) => broker.replace("127.0.0.1", "localhost"));

test("over TLS, to a name and to an address, with certificates as text and as files", async () => {
  const { root } = cluster.authority;
  const ca = join(directory, "ca.pem");
  await Bun.write(ca, root);
  isWhole(await carried({ brokers: at("SSL"), auth: { protocol: "Ssl", ssl_ca: root } }));
  isWhole(await carried({ brokers: byName(at("SSL")), auth: { protocol: "Ssl", ssl_ca_location: ca } }));
});

test("with a client certificate", async () => {
  const { certificate, key } = cluster.authority.issue({ commonName: "client" });
  const auth = { protocol: "Ssl", ssl_ca: cluster.authority.root } as const;
  isWhole(
    await carried({ brokers: at("MTLS"), auth: { ...auth, ssl_certificate: certificate, ssl_key: key } }),
  );
});

test.each(["Plain", "ScramSha256", "ScramSha512"] as const)(
  "with %s, over TLS and without",
  async (mechanism) => {
    const user = { mechanism, username: "alice", password };
    isWhole(await carried({ brokers: at("SASL_PLAINTEXT"), auth: { protocol: "SaslPlaintext", ...user } }));
    isWhole(
      await carried({
        brokers: at("SASL_SSL"),
        auth: { protocol: "SaslSsl", ssl_ca: cluster.authority.root, ...user },
      }),
    );
  },
);

test.each(["None", "Gzip", "Snappy", "Lz4", "Zstd"] as const)(
  "in batches compressed by %s",
  async (compression_type) => {
    isWhole(await carried({ config: { linger_ms: 5, compression_type } }));
  },
);

test("without transactions", async () => {
  const messages = await carried({ config: { linger_ms: 5, transactions: { enabled: false } } });
  isWhole(messages);
  const keys = messages.flatMap(({ headers }) => headers.filter(([name]) => name === "Idempotency-Key"));
  expect(new Set(keys.map(([, value]) => String(value))).size).toBe(rows + 5);
});

test("in Debezium's form, with its headers and the metadata of transactions", async () => {
  const headers = { op: true, db: true, schema: true, tbl: true, context: true, op_name: "operation" };
  const tx_metadata_topic = `tx${connectors}`;
  const debezium = { headers, emit_tx_metadata: true, tx_metadata_topic };
  const messages = await carried({}, { format: { debezium } });
  const last = messages.slice(rows);
  expect(last.map(({ value }) => value && JSON.parse(String(value)).op)).toEqual([
    ...["c", "u", "d", null, "c", "d", null],
  ]);
  const named = Object.fromEntries(last[2]!.headers.map(([name, value]) => [name, String(value)]));
  expect(named).toEqual({
    operation: "d",
    __db: database,
    __schema: "public",
    __tbl: "item",
    __context: `k${connectors}`,
    "__debezium.newkey": '{"id":-1}',
  });
  expect(Object.fromEntries(last[4]!.headers)["__debezium.oldkey"]?.toString()).toBe('{"id":0}');
  const boundaries = await readTopic(cluster, tx_metadata_topic, { isolation: "read_committed" });
  const told = boundaries.map(({ value }) => JSON.parse(String(value)));
  expect(told.map(({ status }) => status).slice(0, 2)).toEqual(["BEGIN", "END"]);
  const id = JSON.parse(String(boundaries[0]!.key)).id;
  expect(told.slice(0, 2).map((each) => each.id)).toEqual([id, id]);
});

test("in Avro, native and Debezium's, with schemas in a registry", async () => {
  const serde = { avro: { schema_registry: { url: registry.url } } };
  const native = await carried({}, { format: { native: { format_config: { value_serde: serde } } } });
  const debezium = await carried({}, { format: { debezium: { format_config: { value_serde: serde } } } });
  const decode = (bytes: Buffer | null, subject: string) =>
    bytes && decodeMessage(bytes, avroType(registry.subjects.get(subject)?.at(-1) ?? "")).value;
  const [nativeId, debeziumId] = [`k${connectors - 1}`, `k${connectors}`];
  expect(decode(native[rows]!.key, `${nativeId}.item-key`)).toEqual({ id: 0n });
  expect(decode(native[rows]!.value, `${nativeId}.item-value`)).toMatchObject({ id: 0n, name: "new" });
  expect(decode(debezium[rows + 1]!.value, `${debeziumId}.item-value`)).toMatchObject({
    op: "u",
    after: { id: 0n, name: "changed" },
  });
});
