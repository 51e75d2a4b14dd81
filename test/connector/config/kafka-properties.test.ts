// The property lists of a Kafka sink, which outrank the fields of their settings.

import { describe, expect, test } from "bun:test";
import { Check } from "@sinclair/typebox/value";
import { withProperties } from "../../../src/connector/config/kafka/librdkafka-properties.ts";
import { type KafkaSinkConfig, KafkaSinkConfigSchema } from "../../../src/connector/config/kafka-config.ts";
import { checkSinkBody } from "../../../src/connector/request/check-request.ts";
import { resolveSink } from "../../../src/connector/request/resolve-connector.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { kafkaSinkSample } from "../samples.ts";

const brokers = ["kafka.internal:9092"];
const sink = (config: object, auth?: object) =>
  kafkaSinkSample({ connection: { brokers, config, ...(auth && { auth }) } });
const list = (properties: Record<string, string>) =>
  Object.entries(properties).map(([key, value]) => ({ key, value }));

function effective(config: object, auth?: object): KafkaSinkConfig["connection"] {
  checkSinkBody({ sink: sink(config, auth) });
  const changed = withProperties(resolveSink(sink(config, auth), null).kafka!);
  expect(Check(KafkaSinkConfigSchema, changed)).toBe(true);
  return changed.connection;
}

function refused(config: object, auth?: object): Record<string, string> {
  try {
    checkSinkBody({ sink: sink(config, auth) });
  } catch (error) {
    if (!(error instanceof MillraceError)) throw error;
    expect(error.code).toBe("invalid_request");
    return Object.fromEntries(error.violations.map(({ path, message }) => [path, message]));
  }
  throw new Error("nothing was refused");
}

const at = "/sink/kafka/connection/config/producer_properties/0";

describe("properties that have a field", () => {
  test.each([
    [{ "linger.ms": "5" }, { linger_ms: 5 }],
    [{ "queue.buffering.max.ms": "6" }, { linger_ms: 6 }],
    [{ "batch.size": "1" }, { batch_size: 1 }],
    [{ "compression.type": "zstd" }, { compression_type: "Zstd" }],
    [{ "compression.codec": "none" }, { compression_type: "None" }],
    [{ acks: "all" }, { acks: "All" }],
    [{ "request.required.acks": "-1" }, { acks: "All" }],
    [{ "message.max.bytes": "2000" }, { message_max_bytes: 2000 }],
    [{ "client.id": "shop" }, { client_id: "shop" }],
    [{ "enable.idempotence": "true" }, { enable_idempotence: true }],
    [{ retries: "9" }, { message_send_max_retries: 9 }],
    [{ "message.send.max.retries": "8" }, { message_send_max_retries: 8 }],
    [{ "delivery.timeout.ms": "7" }, { message_timeout_ms: 7 }],
    [{ "message.timeout.ms": "6" }, { message_timeout_ms: 6 }],
    [{ "retry.backoff.ms": "5" }, { retry_backoff_ms: 5 }],
    [{ "retry.backoff.max.ms": "50" }, { retry_backoff_max_ms: 50 }],
    [{ "request.timeout.ms": "4000" }, { timeout_ms: 4000 }],
    [{ "topic.metadata.refresh.interval.ms": "500" }, { topic_metadata_refresh_interval_ms: 500 }],
    [{ "metadata.max.age.ms": "600" }, { topic_metadata_refresh_interval_ms: 600 }],
    [{ "queue.buffering.max.kbytes": "10" }, { queue_buffering_max_kbytes: 10 }],
    [{ "queue.buffering.max.messages": "11" }, { queue_buffering_max_messages: 11 }],
    [{ "transaction.timeout.ms": "9000" }, { transactions: { enabled: true, timeout_ms: 9000 } }],
    [{ partitioner: "murmur2" }, { partitioner: "murmur2" }],
  ])("%j", (properties, expected) => {
    const changed = { producer_properties: list(properties as Record<string, string>) };
    expect(effective(changed).config).toMatchObject(expected);
    expect(effective({ global_properties: changed.producer_properties }).config).toMatchObject(expected);
  });

  test("outrank the field and the preset, and the producer's outrank the global ones", () => {
    const config = {
      linger_ms: 1,
      producer_preset: "LowLatency",
      global_properties: list({ "linger.ms": "2", "compression.type": "gzip" }),
      producer_properties: list({ "queue.buffering.max.ms": "3" }),
    };
    expect(effective(config).config).toMatchObject({ linger_ms: 3, compression_type: "Gzip" });
  });

  test("of the log-in", () => {
    const auth = { protocol: "SaslPlaintext", mechanism: "Plain" };
    const properties = list({ "sasl.username": "u", "sasl.password": "p" });
    expect(effective({ global_properties: properties }, auth).auth).toEqual({
      ...auth,
      protocol: "SaslPlaintext",
      username: "u",
      password: "p",
    } as never);
  });

  test("leave the stored form as it is", () => {
    const stored = resolveSink(sink({ producer_properties: list({ "linger.ms": "2" }) }), null).kafka!;
    const before = structuredClone(stored);
    withProperties(stored);
    expect(stored).toEqual(before);
  });
});

describe("refused are", () => {
  test("unknown ones, with the known ones", () => {
    const message = refused({ producer_properties: list({ "socket.keepalive.enable": "true" }) })[
      `${at}/key`
    ];
    expect(message).toStartWith("not a property that is used here, so it would be ignored; known are acks, ");
    expect(message).toContain("linger.ms");
    expect(message).not.toContain("socket");
  });

  test.each([
    ["bootstrap.servers", "connection.brokers"],
    ["security.protocol", "auth.protocol"],
    ["sasl.mechanisms", "auth.mechanism"],
    ["ssl.ca.location", "auth.ssl_ca_location"],
    ["transactional.id", "config.transactions.transactional_id"],
  ])("%s: its field is named", (key, field) => {
    expect(refused({ producer_properties: list({ [key]: "x" }) })).toEqual({
      [`${at}/key`]: `set ${field} instead`,
    });
  });

  test.each([
    ["linger.ms", "soon", "expected a whole number"],
    ["linger.ms", "0.5", "expected a whole number"],
    ["linger.ms", "-1", "expected a whole number from 0 to 900000"],
    ["message.max.bytes", "999", "expected a whole number from 1000 to 1000000000"],
    ["compression.type", "brotli", "expected one of: none, gzip, snappy, lz4, zstd"],
    ["enable.idempotence", "yes", "expected one of: true, false"],
    ["acks", "2", "expected one of: 0, 1, all, -1"],
    ["client.id", "", "expected at least 1 character(s)"],
  ])("%s = %j", (key, value, message) => {
    expect(refused({ producer_properties: list({ [key]: value }) })).toEqual({ [`${at}/value`]: message });
  });

  test("two for one setting in a list", () => {
    expect(
      refused({ producer_properties: list({ "linger.ms": "5", "queue.buffering.max.ms": "5" }) }),
    ).toEqual({
      [at.replace("/0", "/1/key")]: "another property of this list sets the same",
    });
  });

  test("what breaks a rule together with the fields, by the property", () => {
    const none = refused({ producer_properties: list({ acks: "0" }) });
    expect(none[`${at}/value`]).toContain("changes would count as delivered that no broker has");
    const leader = refused({ global_properties: list({ acks: "1" }) });
    expect(leader["/sink/kafka/connection/config/global_properties/0/value"]).toContain(
      "transactions demand All",
    );
    const off = { acks: "Leader", transactions: { enabled: false } };
    const idempotent = refused({ ...off, producer_properties: list({ "enable.idempotence": "true" }) });
    expect(idempotent).toEqual({
      "/sink/kafka/connection/config/acks": "enable_idempotence demands All: leave one of the two out",
    });
    expect(Object.keys(refused({ producer_properties: list({ partitioner: "random" }) }))).toEqual([
      `${at}/value`,
    ]);
    expect(refused({ producer_properties: list({ "sasl.password": "p" }) })).toEqual({
      [`${at}/value`]:
        "not used with protocol Plaintext: leave it out, or set protocol to SaslPlaintext or SaslSsl",
    });
  });

  test("a property can mend what its field breaks", () => {
    expect(effective({ acks: "Leader", producer_properties: list({ acks: "all" }) }).config.acks).toBe("All");
  });
});
