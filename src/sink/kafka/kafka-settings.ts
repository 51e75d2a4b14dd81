// What the configuration of a Kafka connector comes to: for the delivering of its messages, and for the producer. Pure.

import { type KafkaMessages, kafkaMessages } from "../../connector/config/kafka/kafka-format.ts";
import { withProperties } from "../../connector/config/kafka/librdkafka-properties.ts";
import type { KafkaSinkConfig } from "../../connector/config/kafka-config.ts";
import { checkpointKey, transactionalId } from "../../connector/config/kafka-config.ts";
import type { ConnectorConfig } from "../../connector/connector.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { DeliverySettings, ParkingSettings } from "../delivery/delivery-settings.ts";
import { parkingSettings } from "../delivery/parking/parking-settings.ts";
import { type MessageEncoding, messageEncoding } from "../format/message-encoding.ts";
import type { Compression } from "./client/record-batch.ts";
import type { TopicPlan } from "./client/topics.ts";
import type { LogOptions } from "./produce/producer-log.ts";
import type { SenderSettings } from "./produce/round-sender.ts";

/** How long a question to a broker may take in addition to what the broker itself waits. */
const answerMs = 5_000;
/** The bound of what gathers, whatever the configuration allows: memory is bounded. */
const mostBufferedBytes = 8 * 1024 * 1024;
/** The service waits no longer for a run to stop. */
const mostStopMs = 5_000;

export interface KafkaSettings extends ProducingSettings {
  readonly database: string;
  readonly messages: KafkaMessages;
  readonly encoding: MessageEncoding;
  readonly hasPlaceholders: boolean;
  readonly delivery: DeliverySettings;
  readonly parking: ParkingSettings;
}

/** `config` is as properties make it. */
export interface ProducingSettings {
  readonly connectorId: string;
  readonly config: KafkaSinkConfig;
  readonly log: LogOptions;
  readonly sender: SenderSettings;
  readonly requestTimeoutMs: number;
  readonly metadataAgeMs: number;
  readonly transactionTimeoutMs: number;
  readonly operationTimeoutMs: number;
  /** Of the messages that hold the checkpoint. */
  readonly checkpointKey: string;
  readonly maxMessageBytes: number;
  readonly topics: TopicPlan;
  readonly stopWithinMs: number;
}

/** Throws `internal` for a connector of another kind: none gets here. */
export function kafkaSettings(connector: ConnectorConfig): KafkaSettings {
  const { id, sink, source, limits } = connector;
  if (!sink.kafka) throw new MillraceError("internal", "the connector's sink is not Kafka");
  const producing = producingSettings(sink.kafka, id);
  const { config } = producing;
  const producer = config.connection.config;
  const messages = kafkaMessages(config.format);
  const database = source.postgres?.connection.database ?? "";
  const hasPlaceholders = source.postgres?.replication_type.logical_replication?.toast_mode === "Placeholder";
  const encoding = messageEncoding(messages.format, { id, database, hasPlaceholders });
  const maxBufferedRows = limits.cdc.max_buffer_rows || Number.POSITIVE_INFINITY;
  return {
    ...producing,
    database,
    messages,
    encoding,
    hasPlaceholders,
    parking: parkingSettings(config.on_exhausted, maxBufferedRows),
    delivery: {
      encoding,
      // A message has one row: where windows end decides nothing.
      batch: { maxRows: 1, isBare: true, maxBytes: producer.message_max_bytes },
      flushIntervalMs: limits.cdc.flush_interval_ms || Math.max(producer.linger_ms, 1),
      maxBufferedRows,
      maxBufferedCopyRows: limits.snapshot.max_buffer_rows || Number.POSITIVE_INFINITY,
    },
  };
}

/** What the sink's configuration alone comes to. */
export function producingSettings(sink: KafkaSinkConfig, connectorId: string): ProducingSettings {
  const config = withProperties(sink);
  const producer = config.connection.config;
  const maxBytes = Math.min(producer.queue_buffering_max_kbytes * 1024, mostBufferedBytes);
  const { topic_options: topics } = config;
  return {
    connectorId,
    config,
    log: {
      batchBytes: Math.min(producer.batch_size, producer.message_max_bytes),
      maxBytes,
      maxMessages: producer.queue_buffering_max_messages || Number.POSITIVE_INFINITY,
    },
    sender: {
      transactionalId: producer.transactions.enabled ? transactionalId(connectorId, config) : null,
      acks: producer.acks === "Leader" ? "Leader" : "All",
      compression: producer.compression_type.toLowerCase() as Compression,
      timeoutMs: producer.timeout_ms,
      maxRetries: producer.message_send_max_retries,
      maxRetryMs: producer.message_timeout_ms || Number.POSITIVE_INFINITY,
      initialBackoffMs: producer.retry_backoff_ms,
      maxBackoffMs: producer.retry_backoff_max_ms,
    },
    requestTimeoutMs: producer.timeout_ms + answerMs,
    metadataAgeMs: producer.topic_metadata_refresh_interval_ms,
    transactionTimeoutMs: producer.transactions.timeout_ms,
    operationTimeoutMs: producer.transactions.op_timeout_ms,
    checkpointKey: checkpointKey(connectorId, config),
    maxMessageBytes: producer.message_max_bytes,
    topics: {
      partitions: topics.partitions,
      replicationFactor: topics.replication_factor,
      config: topics.config,
      operationTimeoutMs: topics.operation_timeout_ms,
    },
    stopWithinMs: Math.min(producer.shutdown_flush_timeout_ms, mostStopMs),
  };
}
