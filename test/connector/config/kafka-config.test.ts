// The full form of a Kafka sink, its defaults, and the names that it goes by.

import { describe, expect, test } from "bun:test";
import { Check } from "@sinclair/typebox/value";
import { kafkaMessages } from "../../../src/connector/config/kafka/kafka-format.ts";
import {
  checkpointKey,
  type KafkaSinkConfig,
  KafkaSinkConfigSchema,
  transactionalId,
} from "../../../src/connector/config/kafka-config.ts";
import { resolveSink } from "../../../src/connector/request/resolve-connector.ts";
import { kafkaSinkSample } from "../samples.ts";

const full = (overrides: object = {}): KafkaSinkConfig =>
  resolveSink(kafkaSinkSample(overrides), null).kafka!;
const connection = (members: object) => ({ connection: { brokers: ["kafka.internal:9092"], ...members } });
const config = (members: object) => full(connection({ config: members })).connection.config;

describe("defaults", () => {
  test("of the smallest sink", () => {
    expect(full()).toEqual({
      connection: {
        brokers: ["kafka.internal:9092"],
        auth: { protocol: "Plaintext" },
        config: {
          acks: "All",
          batch_size: 1_000_000,
          compression_type: "Lz4",
          enable_idempotence: false,
          linger_ms: 100,
          message_max_bytes: 1_000_000,
          message_send_max_retries: 3,
          message_timeout_ms: 300_000,
          producer_pool_size: 0,
          producer_preset: "None",
          queue_buffering_max_kbytes: 1_048_576,
          queue_buffering_max_messages: 1_000_000,
          retry_backoff_ms: 100,
          retry_backoff_max_ms: 60_000,
          shutdown_flush_timeout_ms: 30_000,
          timeout_ms: 30_000,
          topic_metadata_refresh_interval_ms: 60_000,
          transactions: { enabled: true, op_timeout_ms: 30_000, timeout_ms: 60_000 },
          global_properties: [],
          producer_properties: [],
        },
      },
      format: { native: {} },
      topic_name_template: "millrace.{database_or_schema}.{table}",
      topic_options: {
        partitions: 1,
        replication_factor: 1,
        config: [],
        naming_mode: "Default",
        operation_timeout_ms: 30_000,
      },
      on_exhausted: { stop: {} },
    });
    expect(Check(KafkaSinkConfigSchema, full())).toBe(true);
  });

  test("transactions are on unless they are given, and off inside of what is given", () => {
    expect(config({}).transactions.enabled).toBe(true);
    expect(config({ transactions: {} }).transactions.enabled).toBe(false);
    expect(config({ transactions: { timeout_ms: 5000 } }).transactions).toEqual({
      enabled: false,
      op_timeout_ms: 30_000,
      timeout_ms: 5000,
    });
    expect(config({ transactions: { enabled: true, transactional_id: "t" } }).transactions).toEqual({
      enabled: true,
      op_timeout_ms: 30_000,
      timeout_ms: 60_000,
      transactional_id: "t",
    });
  });

  test.each([
    ["None", 100, "Lz4"],
    ["LowLatency", 5, "None"],
    ["Throughput", 250, "Lz4"],
  ])(
    "a preset %s makes defaults, and what is given outranks them",
    (producer_preset, linger_ms, compression_type) => {
      expect(config({ producer_preset })).toMatchObject({ linger_ms, compression_type });
      const given = { linger_ms: 7, compression_type: "Zstd" };
      expect(config({ producer_preset, ...given })).toMatchObject(given);
    },
  );

  test("of debezium's headers", () => {
    const { format } = full({ format: { debezium: { headers: { op: true, tbl_name: "table" } } } });
    expect(format.debezium?.headers).toEqual({
      op: true,
      db: false,
      schema: false,
      tbl: false,
      context: false,
      pk_update: true,
      prefix: "__",
      tbl_name: "table",
    });
    expect(full({ format: { debezium: {} } }).format.debezium).toMatchObject({
      tombstones_on_delete: true,
      skipped_operations: "t",
      headers: { pk_update: true, op: false },
      format_config: { value_serde: { json: {} }, key_serde: null },
    });
  });

  test("an empty text of PEM is none", () => {
    const auth = { protocol: "Ssl", ssl_ca: "", ssl_certificate: null, ssl_key_password: "" };
    expect(full(connection({ auth })).connection.auth).toEqual({ protocol: "Ssl" });
  });
});

describe("messages", () => {
  const registry = { url: "http://registry:8081" };
  const messages = (format: object) => kafkaMessages(full({ format }).format);
  const json = { kind: "json", embedSchema: false } as const;

  test("are JSON, with JSON keys and tombstones", () => {
    const plain = { value: json, key: json, tombstones: true, headers: null };
    expect(messages({ native: {} })).toMatchObject({
      format: { kind: "native", embedSchema: false },
      ...plain,
    });
    expect(messages({ supermetal: {} })).toEqual(messages({ native: {} }));
    const { headers, ...others } = messages({ debezium: { tombstones_on_delete: false } });
    expect(others).toMatchObject({ format: { kind: "debezium" }, value: json, key: json, tombstones: false });
    expect(headers).toMatchObject({ prefix: "__" });
  });

  test("have keys as their values in Avro, unless they have a serde of their own", () => {
    const avro = {
      kind: "avro",
      autoRegister: true,
      subjectNameStrategy: "TopicName",
      registry,
    } as const;
    const value_serde = { avro: { schema_registry: registry } };
    expect(messages({ native: { format_config: { value_serde } } })).toMatchObject({
      value: avro,
      key: avro,
    });
    const key_serde = { json: { options: { embed_schema_in_message: true } } };
    const mixed = messages({ debezium: { format_config: { value_serde, key_serde } } });
    expect(mixed).toMatchObject({
      format: { kind: "debezium", embedSchema: false },
      value: avro,
      key: { kind: "json", embedSchema: true },
    });
    const embedded = messages({ native: { format_config: { value_serde: key_serde } } });
    expect(embedded).toMatchObject({
      format: { embedSchema: true },
      value: { embedSchema: true },
      key: json,
    });
  });
});

test("the transactional id and the checkpoint's key are made of the name, or else of the connector's id", () => {
  expect(transactionalId("orders", full())).toBe("millrace-orders");
  expect(transactionalId("orders", full({ name: "shop" }))).toBe("millrace-shop");
  const chosen = connection({ config: { transactions: { enabled: true, transactional_id: "own" } } });
  expect(transactionalId("orders", full({ name: "shop", ...chosen }))).toBe("own");
  expect(checkpointKey("orders", full(chosen))).toBe("orders");
  expect(checkpointKey("orders", full({ name: "shop" }))).toBe("shop");
});
