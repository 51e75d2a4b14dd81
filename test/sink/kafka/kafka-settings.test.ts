import { describe, expect, test } from "bun:test";
import type { KafkaSinkRequest } from "../../../src/connector/config/kafka-config.ts";
import type { ConnectorRequest } from "../../../src/connector/connector.ts";
import { type KafkaSettings, kafkaSettings } from "../../../src/sink/kafka/kafka-settings.ts";
import { sampleConfig, sampleRequest } from "../../support/api/sample-connector.ts";

type Producer = NonNullable<KafkaSinkRequest["connection"]["config"]>;

function settingsOf(
  config: Producer = {},
  sink: Partial<KafkaSinkRequest> = {},
  request: Partial<ConnectorRequest> = {},
): KafkaSettings {
  const kafka: KafkaSinkRequest = {
    connection: { brokers: ["broker:9092"], config },
    format: { native: {} },
    topic_options: {},
    ...sink,
  };
  return kafkaSettings(sampleConfig("c1", { ...sampleRequest(), sink: { kafka }, ...request }));
}

describe("what a Kafka connector's configuration comes to", () => {
  test("by default: transactions under the connector's id, and bounds that do not depend on the machine", () => {
    expect(settingsOf()).toMatchObject({
      connectorId: "c1",
      database: "shop",
      checkpointKey: "c1",
      sender: {
        transactionalId: "millrace-c1",
        acks: "All",
        compression: "lz4",
        timeoutMs: 30_000,
        maxRetries: 3,
        maxRetryMs: 300_000,
        initialBackoffMs: 100,
        maxBackoffMs: 60_000,
      },
      log: { batchBytes: 1_000_000, maxBytes: 8 * 1024 * 1024, maxMessages: 1_000_000 },
      requestTimeoutMs: 35_000,
      transactionTimeoutMs: 60_000,
      operationTimeoutMs: 30_000,
      maxMessageBytes: 1_000_000,
      topics: { partitions: 1, replicationFactor: 1, config: [], operationTimeoutMs: 30_000 },
      stopWithinMs: 5_000,
    });
  });

  test("a message has one row, whatever is configured", () => {
    const { batch } = settingsOf({ batch_size: 5, message_max_bytes: 7_000 }).delivery;
    expect(batch).toEqual({ maxRows: 1, isBare: true, maxBytes: 7_000 });
  });

  test.each([
    ["None", "none"],
    ["Gzip", "gzip"],
    ["Snappy", "snappy"],
    ["Lz4", "lz4"],
    ["Zstd", "zstd"],
  ] as const)("compression %s is %s", (compression_type, expected) => {
    expect(settingsOf({ compression_type }).sender.compression).toBe(expected);
  });

  test("without transactions there is no transactional id, and one acknowledgement may be enough", () => {
    expect(settingsOf({ transactions: {} }).sender).toMatchObject({ transactionalId: null, acks: "All" });
    expect(settingsOf({ acks: "Leader", transactions: { enabled: false } }).sender).toMatchObject({
      transactionalId: null,
      acks: "Leader",
    });
  });

  test("the name stands for the id, and the transactional id may be another one", () => {
    expect(settingsOf({}, { name: "orders" })).toMatchObject({
      checkpointKey: "orders",
      sender: { transactionalId: "millrace-orders" },
    });
    const transactions = { enabled: true, transactional_id: "mine" };
    expect(settingsOf({ transactions }, { name: "orders" })).toMatchObject({
      checkpointKey: "orders",
      sender: { transactionalId: "mine" },
    });
  });

  test("a batch is no larger than a request may be, and what gathers is bounded", () => {
    expect(settingsOf({ batch_size: 500, message_max_bytes: 2_000 }).log.batchBytes).toBe(500);
    expect(settingsOf({ batch_size: 5_000, message_max_bytes: 2_000 }).log.batchBytes).toBe(2_000);
    expect(settingsOf({ queue_buffering_max_kbytes: 64 }).log.maxBytes).toBe(64 * 1024);
  });

  test("0 is no bound where the document says so", () => {
    const { sender, log } = settingsOf({ message_timeout_ms: 0, queue_buffering_max_messages: 0 });
    expect(sender.maxRetryMs).toBe(Number.POSITIVE_INFINITY);
    expect(log.maxMessages).toBe(Number.POSITIVE_INFINITY);
    expect(settingsOf().delivery).toMatchObject({
      maxBufferedRows: Number.POSITIVE_INFINITY,
      maxBufferedCopyRows: Number.POSITIVE_INFINITY,
    });
  });

  test("changes wait as the connector's limits say, or else as long as a batch", () => {
    expect(settingsOf({ linger_ms: 40 }, {}, { limits: { cdc: { flush_interval_ms: 9 } } }).delivery).toEqual(
      expect.objectContaining({ flushIntervalMs: 9 }),
    );
    const unset = { limits: { cdc: { flush_interval_ms: 0 } } };
    expect(settingsOf({ linger_ms: 40 }, {}, unset).delivery.flushIntervalMs).toBe(40);
    expect(settingsOf({ linger_ms: 0 }, {}, unset).delivery.flushIntervalMs).toBe(1);
  });

  test("properties outrank fields", () => {
    const producer_properties = [
      { key: "compression.codec", value: "gzip" },
      { key: "linger.ms", value: "7" },
    ];
    const unset = { limits: { cdc: { flush_interval_ms: 0 } } };
    const settings = settingsOf({ compression_type: "Zstd", linger_ms: 90, producer_properties }, {}, unset);
    expect(settings.sender.compression).toBe("gzip");
    expect(settings.delivery.flushIntervalMs).toBe(7);
  });

  test("a connector of another kind does not get here", () => {
    expect(() => kafkaSettings(sampleConfig("c1"))).toThrow("the connector's sink is not Kafka");
  });
});
