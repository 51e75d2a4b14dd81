// The checks of a Kafka sink against real brokers: what is wrong is found, and told with what to do.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { KafkaSinkConfig, KafkaSinkRequest } from "../../src/connector/config/kafka-config.ts";
import { resolveSink } from "../../src/connector/request/resolve-connector.ts";
import type { ValidateEvent } from "../../src/connector/validation.ts";
import { freePort } from "../../src/demo/free-port.ts";
import { validateKafkaSink } from "../../src/sink/kafka/checks/sink-validation.ts";
import { findTest, outline } from "../support/api/validation-events.ts";
import type { KafkaListener } from "../support/kafka/broker-properties.ts";
import { KafkaCluster, type Permission } from "../support/kafka/kafka-cluster.ts";
import { producing } from "../support/kafka/send-message.ts";
import { CertificateAuthority } from "../support/servers/certificate-authority.ts";

interface Change {
  readonly auth?: KafkaSinkRequest["connection"]["auth"];
  readonly config?: KafkaSinkRequest["connection"]["config"];
  readonly topics?: KafkaSinkRequest["topic_options"];
  readonly format?: KafkaSinkRequest["format"];
  readonly template?: string;
  readonly name?: string;
}

function sink(brokers: string[], change: Change = {}): KafkaSinkConfig {
  const { auth, config, topics = {}, format = { native: {} }, template, name } = change;
  const request: KafkaSinkRequest = {
    connection: { brokers, ...(auth && { auth }), ...(config && { config }) },
    format,
    topic_options: topics,
    ...(template !== undefined && { topic_name_template: template }),
    ...(name !== undefined && { name }),
  };
  return resolveSink({ kafka: request }, null).kafka!;
}

const signal = new AbortController().signal;

async function validate(brokers: string[], change: Change = {}, id: string | null = "orders") {
  const began = performance.now();
  const events = await validateKafkaSink(sink(brokers, change), signal, id);
  expect(performance.now() - began).toBeLessThan(10_000);
  return events;
}

/** What failed, and everything that it is told with. */
async function failure(brokers: string[], change: Change, name: string, id: string | null = "orders") {
  const events = await validate(brokers, change, id);
  const found = findTest(events, name);
  if (!found.status.Failed) throw new Error(`${name} has not failed: ${JSON.stringify(events)}`);
  return `${found.status.Failed.reason} ${(found.commands ?? []).join("\n")}`;
}

async function warning(brokers: string[], change: Change, name: string, id: string | null = "orders") {
  const events = await validate(brokers, change, id);
  expect(outline(events)).toContain(`${name}: Warn`);
  const { message = "", commands = [] } = findTest(events, name);
  return `${message} ${commands.join("\n")}`;
}

function wrong(events: readonly ValidateEvent[]): string[] {
  return outline(events).filter((line) => /Failed|Warn|failed/.test(line));
}

const allChecks = (dns: number) => [
  "start",
  ...Array.from({ length: dns }, () => "DnsResolution: Success"),
  ...Array.from({ length: dns }, () => "Reachability: Success"),
];
const checksOfCluster = [
  ...["Authentication: Success", "ServerInfo: Success"],
  ...[
    "Permission Topics: Success",
    "Permission Transactional id: Success",
    "Permission Checkpoints: Success",
  ],
  ...["Config Brokers: Success", "Config Replication: Success", "Config In-sync replicas: Success"],
  ...["Config Message size: Success", "Config Batch size: Success", "Config Transaction timeout: Success"],
  "Config Checkpoint topic: Success",
];

describe("one broker", () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.start({ listeners: ["SSL"] });
  });
  afterAll(() => cluster?.[Symbol.asyncDispose]());

  test("all is good, and nothing is left", async () => {
    const events = await validate(cluster.bootstrap);
    expect(outline(events)).toEqual([...allChecks(1), "TLS: Skipped", ...checksOfCluster, "success"]);
    const version = findTest(events, "ServerInfo").test_type.ServerInfo!.version;
    expect(version).toMatch(/^Kafka 4\.3 \(metadata\.version \d+\), 1 broker$/);
    expect(findTest(events, "Reachability").message).toBe(cluster.bootstrap[0]!);
    expect(await cluster.topics()).toEqual([]);
    expect(await cluster.transactions()).toEqual([]);
  });

  test("a producer that runs under the transactional id is not fenced", async () => {
    await cluster.createTopic("running");
    await producing(
      cluster.bootstrap,
      { idempotent: true, transactionalId: "millrace-orders" },
      async (producer) => {
        const transaction = await producer.beginTransaction();
        const send = () =>
          transaction.send({ messages: [{ topic: "running", value: Buffer.from("a") }] } as never);
        await send();
        expect(wrong(await validate(cluster.bootstrap))).toEqual([]);
        await send();
        await transaction.commit();
      },
    );
    await cluster.deleteTopic("running");
  });

  test("a broker that is away fails, and is a warning beside one that is there", async () => {
    const away = `127.0.0.1:${await freePort()}`;
    const events = await validate([away]);
    expect(outline(events).slice(0, 5)).toEqual([
      ...["start", "DnsResolution: Success", "Reachability: Failed", "TLS: Skipped"],
      "Authentication: Skipped",
    ]);
    expect(await failure([away], {}, "Reachability")).toContain(`No connection to broker ${away}`);
    expect(wrong(await validate([away, ...cluster.bootstrap]))).toEqual(["Reachability: Warn"]);
    expect(await failure(["nowhere.invalid:9092"], {}, "DnsResolution")).toContain("does not resolve");
  });

  test("TLS where there is none, and none where there is", async () => {
    const root = { ssl_ca: cluster.authority.root };
    expect(await failure(cluster.bootstrap, { auth: { protocol: "Ssl", ...root } }, "TLS")).toContain(
      "does not speak TLS",
    );
    expect(await failure(cluster.addresses("SSL"), {}, "TLS")).toContain("set auth.protocol to Ssl");
  });

  test("what is no Kafka is told as that", async () => {
    const server = Bun.serve({ port: 0, fetch: () => new Response("no") });
    try {
      expect(await failure([`127.0.0.1:${server.port}`], {}, "TLS")).toContain("is no Kafka broker");
    } finally {
      await server.stop(true);
    }
  });

  test("replicas, timeout and sizes that brokers do not take", async () => {
    const { bootstrap } = cluster;
    expect(await failure(bootstrap, { topics: { replication_factor: 3 } }, "Config Replication")).toContain(
      "the cluster has 1 broker: set it to 1",
    );
    const inSync = { topics: { config: [{ key: "min.insync.replicas", value: "2" }] } };
    expect(await failure(bootstrap, inSync, "Config In-sync replicas")).toContain("min.insync.replicas is 2");
    const timeout = { config: { transactions: { enabled: true, timeout_ms: 900_000 } } };
    expect(wrong(await validate(bootstrap, timeout))).toEqual([]);
    const large = { config: { message_max_bytes: 5_000_000 } };
    expect(await warning(bootstrap, large, "Config Message size")).toContain(
      "message.max.bytes of the brokers is 1048588",
    );
    const options = { topics: { config: [{ key: "max.message.bytes", value: "6000000" }] } };
    expect(wrong(await validate(bootstrap, { ...large, ...options }))).toEqual([]);
  });

  test("topics that are there are looked at, by the template", async () => {
    await cluster.createTopic("small.public.orders", { config: { "max.message.bytes": 5_000 } });
    await cluster.createTopic("other", { config: { "max.message.bytes": 5_000 } });
    await cluster.createTopic("strict.public.orders", { config: { "min.insync.replicas": 2 } });
    const { bootstrap } = cluster;
    const told = await warning(bootstrap, { template: "small.{schema}.{table}" }, "Config Message size");
    expect(told).toContain("max.message.bytes of topic small.public.orders is 5000");
    expect(told).toContain("--entity-name small.public.orders --add-config max.message.bytes=1000000");
    const strict = { template: "strict.{schema}.{table}" };
    expect(await failure(bootstrap, strict, "Config In-sync replicas")).toContain("strict.public.orders");
  });

  test("a topic of checkpoints that loses them", async () => {
    await cluster.createTopic("millrace.checkpoints", { config: { "cleanup.policy": "delete" } });
    expect(await failure(cluster.bootstrap, {}, "Config Checkpoint topic")).toContain(
      "cleanup.policy=compact",
    );
    const off = { config: { transactions: { enabled: false } } };
    expect(wrong(await validate(cluster.bootstrap, off))).toEqual([]);
    await cluster.deleteTopic("millrace.checkpoints");
  });

  test("a template that makes no name", async () => {
    const long = { template: `${"a".repeat(250)}.{table}` };
    expect(await failure(cluster.bootstrap, long, "Permission Topics")).toContain("Kafka takes at most 249");
  });

  test("a registry that is away", async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const value_serde = { avro: { schema_registry: { url } } };
    const format = { native: { format_config: { value_serde } } };
    expect(await failure(cluster.bootstrap, { format }, "Config Schema registry")).toContain(
      "cannot be reached",
    );
  });
});

describe("what brokers allow", () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.start({
      config: { "transaction.max.timeout.ms": 60_000, "message.max.bytes": 500_000 },
    });
  });
  afterAll(() => cluster?.[Symbol.asyncDispose]());

  test("a timeout and sizes above theirs", async () => {
    const timeout = { config: { transactions: { enabled: true, timeout_ms: 90_000 } } };
    expect(await failure(cluster.bootstrap, timeout, "Config Transaction timeout")).toContain(
      "the brokers allow 60000 (transaction.max.timeout.ms)",
    );
    const short = { config: { transactions: { enabled: true, timeout_ms: 2_000 } } };
    expect(await warning(cluster.bootstrap, short, "Config Transaction timeout")).toContain(
      "Set transactions.timeout_ms above 2000.",
    );
    expect(await warning(cluster.bootstrap, {}, "Config Message size")).toContain(
      "message_max_bytes is 1000000",
    );
    expect(await warning(cluster.bootstrap, {}, "Config Batch size")).toContain(
      "batch_size to 500000 or less",
    );
  });
});

describe("three brokers", () => {
  test("each is reached; one replica is a warning", async () => {
    await using cluster = await KafkaCluster.start({ brokers: 3 });
    const events = await validate(cluster.bootstrap, { topics: { replication_factor: 3 } });
    expect(outline(events)).toEqual([...allChecks(3), "TLS: Skipped", ...checksOfCluster, "success"]);
    expect(findTest(events, "ServerInfo").test_type.ServerInfo!.version).toEndWith("3 brokers");
    expect(await warning(cluster.bootstrap, {}, "Config Replication")).toContain("Set it to 3");
  });
});

describe("listeners and permissions", () => {
  const users = { alice: "secret" };
  let cluster: KafkaCluster;
  beforeAll(async () => {
    const listeners: KafkaListener[] = ["SSL", "MTLS", "SASL_PLAINTEXT", "SASL_SSL"];
    cluster = await KafkaCluster.start({ listeners, users, authorize: true });
  });
  afterAll(() => cluster?.[Symbol.asyncDispose]());

  const scram = (password = "secret") => {
    const logIn = { mechanism: "ScramSha512", username: "alice", password } as const;
    return { protocol: "SaslSsl", ...logIn, ssl_ca: cluster.authority.root } as const;
  };
  const needed = {
    topics: { resource: "topic", name: "millrace.", pattern: "PREFIXED", operations: ["CREATE", "WRITE"] },
    read: { resource: "topic", name: "millrace.checkpoints", operations: ["READ"] },
    id: { resource: "transactional_id", name: "millrace-orders", operations: ["WRITE"] },
    settings: { resource: "cluster", name: "kafka-cluster", operations: ["DESCRIBE_CONFIGS"] },
    topicSettings: {
      resource: "topic",
      name: "millrace.",
      pattern: "PREFIXED",
      operations: ["DESCRIBE_CONFIGS"],
    },
  } as const satisfies Record<string, Permission>;
  const allow = async (...names: (keyof typeof needed)[]) => {
    await cluster.withdraw("alice");
    await cluster.allow("alice", ...names.map((name) => needed[name]));
  };

  test("SASL_SSL with SCRAM, and no more than is needed", async () => {
    await allow("topics", "read", "id", "settings", "topicSettings");
    const events = await validate(cluster.addresses("SASL_SSL"), { auth: scram() });
    expect(outline(events)).toEqual([...allChecks(1), "TLS: Success", ...checksOfCluster, "success"]);
    await allow("topics", "read", "id");
    const without = await validate(cluster.addresses("SASL_SSL"), { auth: scram() });
    expect(wrong(without)).toEqual([]);
    expect(outline(without)).toContain("Config Transaction timeout: Skipped");
  });

  test("a wrong password, an unknown authority, a client certificate that is missing", async () => {
    const brokers = cluster.addresses("SASL_SSL");
    const password = await failure(brokers, { auth: scram("wrong") }, "Authentication");
    expect(password).toContain("SASL_AUTHENTICATION_FAILED");
    expect(password).toContain("Check auth.username, auth.password and auth.mechanism");
    expect(password).not.toContain("wrong");
    const other = { ...scram(), ssl_ca: new CertificateAuthority("another").root };
    expect(await failure(brokers, { auth: other }, "TLS")).toContain("set auth.ssl_ca");
    const { ssl_ca } = scram();
    const mutual = await failure(cluster.addresses("MTLS"), { auth: { protocol: "Ssl", ssl_ca } }, "TLS");
    expect(mutual).toContain("client certificate");
    const { certificate, key } = cluster.authority.issue({ commonName: "client" });
    const own = { protocol: "Ssl", ssl_ca, ssl_certificate: certificate, ssl_key: key } as const;
    const granted = await failure(cluster.addresses("MTLS"), { auth: own }, "Permission Topics");
    expect(granted).toContain("--allow-principal User:CN=client");
  });

  test("a listener that wants another log-in", async () => {
    const { protocol, ssl_ca, ...logIn } = scram();
    const none = await failure(cluster.addresses("SASL_PLAINTEXT"), {}, "Authentication");
    expect(none).toContain("set auth.protocol to SaslPlaintext");
    const sasl = { ...logIn, protocol: "SaslPlaintext" } as const;
    expect(wrong(await validate(cluster.bootstrap, { auth: sasl }))[0]).toBe("Authentication: Failed");
  });

  test("each permission that is missing is told with the command that gives it", async () => {
    const brokers = cluster.addresses("SASL_SSL");
    const change = { auth: scram() };
    await allow("read", "id");
    const topics = await failure(brokers, change, "Permission Topics");
    expect(topics).toContain("may not make topics such as millrace.public.validation");
    expect(topics).toContain(
      "--add --allow-principal User:alice --operation Create --operation Write --topic millrace. --resource-pattern-type prefixed",
    );
    await allow("topics", "read");
    const id = await failure(brokers, change, "Permission Transactional id");
    expect(id).toContain("--operation Write --transactional-id millrace-orders");
    expect(await warning(brokers, change, "Permission Transactional id", null)).toContain("millrace-");
    await cluster.createTopic("millrace.checkpoints", { config: { "cleanup.policy": "compact" } });
    await allow("topics", "id");
    const read = await failure(brokers, change, "Permission Checkpoints");
    expect(read).toContain("--operation Read --topic millrace.checkpoints");
    const template = { ...change, template: "elsewhere.{table}" };
    await cluster.withdraw("alice");
    await cluster.allow("alice", needed.id, {
      resource: "topic",
      name: "elsewhere.",
      pattern: "PREFIXED",
      operations: ["CREATE", "WRITE"],
    });
    const hidden = await failure(brokers, template, "Permission Checkpoints");
    expect(hidden).toContain("The user may not use topic millrace.checkpoints");
    await cluster.createTopic("closed.orders");
    await cluster.allow("alice", { resource: "topic", name: "closed.orders", operations: ["DESCRIBE"] });
    const closed = await failure(brokers, { ...change, template: "closed.{table}" }, "Permission Topics");
    expect(closed).toContain("may not write to topic closed.orders");
  });
});
