// The settings of a Kafka producer: `connection.config` without its property lists. Schemas and defaults.

import { type Static, Type } from "@sinclair/typebox";
import { oneOf, strictObject, wholeNumber } from "../../request/schema-forms.ts";

export const longestTimeoutMs = 900_000;
const timeout = (description: string, minimum = 1) =>
  wholeNumber({ minimum, maximum: longestTimeoutMs, description });

export const visibleText = (maxLength: number, description: string) =>
  Type.String({
    minLength: 1,
    maxLength,
    pattern: "^[\\x21-\\x7e]+$",
    description: `${description} Visible ASCII characters without blanks.`,
  });

const transactionFields = {
  enabled: Type.Boolean({
    description:
      "True: whole source transactions go in Kafka transactions, together with the checkpoint: exactly once. Left out here: false. Without " +
      "`transactions` they are on.",
  }),
  op_timeout_ms: timeout("Bound of one request about a transaction. Left out: 30000."),
  timeout_ms: timeout(
    "After this time brokers give up an open transaction. At most the brokers' `transaction.max.timeout.ms`. Left out: 60000.",
    1000,
  ),
};
const transactionalId = Type.Optional(
  visibleText(
    255,
    "Only one producer of this id writes; it cannot change. Left out: `millrace-` and `name`, or else the connector's id.",
  ),
);

const fields = {
  acks: oneOf(["All", "Leader", "None"], {
    description:
      "Replicas that must have a message. Left out: All, which makes the producer idempotent. Leader needs `transactions` off and no " +
      "`enable_idempotence`. None is refused: changes would count as delivered that no broker has.",
  }),
  batch_size: wholeNumber({
    minimum: 1,
    description: "Bytes of a batch for one partition. Left out: 1000000.",
  }),
  compression_type: oneOf(["Lz4", "None", "Gzip", "Snappy", "Zstd"], {
    description: "Compression of batches. Left out: Lz4, or what `producer_preset` says.",
  }),
  enable_idempotence: Type.Boolean({
    description:
      "True demands that `acks` is All. Left out: false, and the producer is idempotent whenever `acks` is All.",
  }),
  linger_ms: wholeNumber({
    maximum: longestTimeoutMs,
    description: "How long a batch waits to fill up. Left out: 100, or what `producer_preset` says.",
  }),
  message_max_bytes: wholeNumber({
    minimum: 1000,
    maximum: 1_000_000_000,
    description: "Largest message. A larger one stops the run. Left out: 1000000.",
  }),
  message_send_max_retries: wholeNumber({
    description: "How often one request is tried again before its failure is told. Left out: 3.",
  }),
  message_timeout_ms: wholeNumber({
    description: "How long a message may take, with its retries; 0: unlimited. Left out: 300000.",
  }),
  producer_pool_size: wholeNumber({
    description: "0 or 1, the default is 0: one producer keeps order and transactions.",
  }),
  producer_preset: oneOf(["None", "LowLatency", "Throughput"], {
    description:
      "Default of `linger_ms` and `compression_type`: 5 and None with LowLatency, 250 and Lz4 with Throughput, 100 and Lz4 with None, also if left " +
      "out. What is given outranks it.",
  }),
  queue_buffering_max_kbytes: wholeNumber({
    minimum: 1,
    description: "Bound of what waits to be sent, in KiB. Left out: 1048576.",
  }),
  queue_buffering_max_messages: wholeNumber({
    description: "Bound of what waits to be sent, in messages; 0: unlimited. Left out: 1000000.",
  }),
  retry_backoff_ms: wholeNumber({ minimum: 1, maximum: 300_000, description: "First delay. Left out: 100." }),
  retry_backoff_max_ms: wholeNumber({
    minimum: 1,
    maximum: 300_000,
    description: "Largest delay. Left out: 60000.",
  }),
  shutdown_flush_timeout_ms: timeout(
    "How long a stop waits for what is being sent, up to 5000, which is what the service itself waits. Left out: 30000.",
    0,
  ),
  timeout_ms: timeout("Bound of one request. Left out: 30000."),
  topic_metadata_refresh_interval_ms: wholeNumber({
    minimum: 1,
    maximum: 3_600_000,
    description: "How often leaders and partitions are asked for. Left out: 60000.",
  }),
};
const optionalFields = {
  client_id: Type.Optional(visibleText(255, "Name of the client in brokers' logs and quotas.")),
  partitioner: Type.Optional(
    Type.String({
      maxLength: 255,
      description:
        "murmur2 or murmur2_random, which are the same here, also if left out: Java's murmur2 of the key. Another one is refused, as " +
        "consumers and other producers would find a key in another partition.",
    }),
  ),
};

export const producerRequestFields = {
  acks: Type.Optional(fields.acks),
  batch_size: Type.Optional(fields.batch_size),
  compression_type: Type.Optional(fields.compression_type),
  enable_idempotence: Type.Optional(fields.enable_idempotence),
  linger_ms: Type.Optional(fields.linger_ms),
  message_max_bytes: Type.Optional(fields.message_max_bytes),
  message_send_max_retries: Type.Optional(fields.message_send_max_retries),
  message_timeout_ms: Type.Optional(fields.message_timeout_ms),
  producer_pool_size: Type.Optional(fields.producer_pool_size),
  producer_preset: Type.Optional(fields.producer_preset),
  queue_buffering_max_kbytes: Type.Optional(fields.queue_buffering_max_kbytes),
  queue_buffering_max_messages: Type.Optional(fields.queue_buffering_max_messages),
  retry_backoff_ms: Type.Optional(fields.retry_backoff_ms),
  retry_backoff_max_ms: Type.Optional(fields.retry_backoff_max_ms),
  shutdown_flush_timeout_ms: Type.Optional(fields.shutdown_flush_timeout_ms),
  timeout_ms: Type.Optional(fields.timeout_ms),
  topic_metadata_refresh_interval_ms: Type.Optional(fields.topic_metadata_refresh_interval_ms),
  ...optionalFields,
  transactions: Type.Optional(
    strictObject(
      {
        enabled: Type.Optional(transactionFields.enabled),
        op_timeout_ms: Type.Optional(transactionFields.op_timeout_ms),
        timeout_ms: Type.Optional(transactionFields.timeout_ms),
        transactional_id: transactionalId,
      },
      { description: "Left out: on, with every default. `{}` or `enabled` false: off." },
    ),
  ),
};
const ProducerRequestSchema = strictObject(producerRequestFields);
export type ProducerRequest = Static<typeof ProducerRequestSchema>;

export const producerFields = {
  ...fields,
  ...optionalFields,
  transactions: strictObject({ ...transactionFields, transactional_id: transactionalId }),
};
export const ProducerSchema = strictObject(producerFields);
type Producer = Static<typeof ProducerSchema>;

// --- defaults --------------------------------------------------------------------------------

const presets = {
  None: { linger_ms: 100, compression_type: "Lz4" },
  LowLatency: { linger_ms: 5, compression_type: "None" },
  Throughput: { linger_ms: 250, compression_type: "Lz4" },
} as const;

/** The defaults that `producer_preset` decides. */
export function presetDefaults(preset: Producer["producer_preset"] = "None") {
  return presets[preset];
}

export function completeProducer(request: ProducerRequest): Producer {
  const { client_id, partitioner, transactions } = request;
  const preset = presetDefaults(request.producer_preset);
  return {
    acks: request.acks ?? "All",
    batch_size: request.batch_size ?? 1_000_000,
    compression_type: request.compression_type ?? preset.compression_type,
    enable_idempotence: request.enable_idempotence ?? false,
    linger_ms: request.linger_ms ?? preset.linger_ms,
    message_max_bytes: request.message_max_bytes ?? 1_000_000,
    message_send_max_retries: request.message_send_max_retries ?? 3,
    message_timeout_ms: request.message_timeout_ms ?? 300_000,
    producer_pool_size: request.producer_pool_size ?? 0,
    producer_preset: request.producer_preset ?? "None",
    queue_buffering_max_kbytes: request.queue_buffering_max_kbytes ?? 1_048_576,
    queue_buffering_max_messages: request.queue_buffering_max_messages ?? 1_000_000,
    retry_backoff_ms: request.retry_backoff_ms ?? 100,
    retry_backoff_max_ms: request.retry_backoff_max_ms ?? 60_000,
    shutdown_flush_timeout_ms: request.shutdown_flush_timeout_ms ?? 30_000,
    timeout_ms: request.timeout_ms ?? 30_000,
    topic_metadata_refresh_interval_ms: request.topic_metadata_refresh_interval_ms ?? 60_000,
    ...(client_id !== undefined && { client_id }),
    ...(partitioner !== undefined && { partitioner }),
    transactions: completeTransactions(transactions),
  };
}

function completeTransactions(transactions: ProducerRequest["transactions"]): Producer["transactions"] {
  const { enabled, op_timeout_ms, timeout_ms, transactional_id } = transactions ?? { enabled: true };
  return {
    enabled: enabled ?? false,
    op_timeout_ms: op_timeout_ms ?? 30_000,
    timeout_ms: timeout_ms ?? 60_000,
    ...(transactional_id !== undefined && { transactional_id }),
  };
}
