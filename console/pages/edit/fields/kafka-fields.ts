// The fields of a Kafka sink. Pure.

import {
  check,
  choice,
  type GroupSpec,
  lines,
  number,
  pairs,
  pem,
  secret,
  text,
  union,
} from "./field-spec.ts";
import { debeziumFields, formatField, receiptGroup } from "./message-fields.ts";

const auth = "/sink/kafka/connection/auth";
const config = "/sink/kafka/connection/config";
const transactions = `${config}/transactions` as const;
const topics = "/sink/kafka/topic_options";
const protocol = `${auth}/protocol` as const;
const exhausted = "/sink/kafka/on_exhausted";
const park = `${exhausted}/park` as const;

const withSasl = { onlyIf: [protocol, ["SaslPlaintext", "SaslSsl"]] as const };
const withTls = { onlyIf: [protocol, ["Ssl", "SaslSsl"]] as const };
/** Inside of `transactions` they are off unless it says so. */
const staysOn = { alsoSets: [`${transactions}/enabled`, true] as const };

export const kafkaGroups: readonly GroupSpec[] = [
  {
    title: "The cluster to write",
    isMain: true,
    fields: [
      lines("/sink/kafka/connection/brokers", "Brokers", {
        isFixed: true,
        placeholder: "broker-1.example.com:9092",
        hint: "One a line, as host:port. The others are found by them.",
      }),
      choice(protocol, "Connection", {
        Plaintext: "Plain",
        Ssl: "TLS",
        SaslPlaintext: "Log-in (SASL), plain",
        SaslSsl: "Log-in (SASL) and TLS",
      }),
      choice(
        `${auth}/mechanism`,
        "Mechanism",
        { Plain: "PLAIN", ScramSha256: "SCRAM-SHA-256", ScramSha512: "SCRAM-SHA-512" },
        withSasl,
      ),
      text(`${auth}/username`, "User", withSasl),
      secret(`${auth}/password`, "Password", withSasl),
      text("/sink/kafka/topic_name_template", "Topic of a table", {
        hint: "{schema}, {table}, {database} and {database_or_schema} are replaced.",
      }),
    ],
  },
  {
    title: "Certificates (TLS)",
    fields: [
      pem(`${auth}/ssl_ca`, "Root certificates", {
        ...withTls,
        hint: "PEM text. Left out: those of the system.",
      }),
      pem(`${auth}/ssl_certificate`, "Client certificate", {
        ...withTls,
        hint: "PEM text. It needs its key.",
      }),
      pem(`${auth}/ssl_key`, "Key of the client certificate", { ...withTls, hint: "PEM text." }),
      secret(`${auth}/ssl_key_password`, "Passphrase of the key", withTls),
      text(`${auth}/ssl_ca_location`, "File of root certificates", {
        ...withTls,
        hint: "A path on the service's machine, instead of the text.",
      }),
      text(`${auth}/ssl_certificate_location`, "File of the client certificate", withTls),
      text(`${auth}/ssl_key_location`, "File of its key", withTls),
    ],
  },
  {
    title: "Messages",
    fields: [
      formatField("/sink/kafka/format", "The key is the primary key."),
      ...debeziumFields("/sink/kafka/format"),
      check("/sink/kafka/format/debezium/tombstones_on_delete", "Send a tombstone after a delete", {
        under: "/sink/kafka/format/debezium",
      }),
    ],
  },
  {
    title: "Topics that are made",
    hint: "Those that are there stay as they are",
    fields: [
      number(`${topics}/partitions`, "Partitions", { width: 2 }),
      number(`${topics}/replication_factor`, "Replicas", { width: 2 }),
      choice(`${topics}/naming_mode`, "Other characters in names", {
        Default: "Become _",
        Unicode: "Become _u and their code",
      }),
      pairs(`${topics}/config`, "Settings", "key"),
    ],
  },
  {
    title: "Exactly once",
    fields: [
      check(`${transactions}/enabled`, "Write in Kafka transactions", {
        isFixed: true,
        hint: "Consumers with read_committed see each change once. Otherwise some come again after a crash.",
      }),
      text(`${transactions}/transactional_id`, "Transactional id", {
        isFixed: true,
        ...staysOn,
        hint: "Left out: millrace- and the connector's id.",
      }),
      number(`${transactions}/timeout_ms`, "Longest transaction (ms)", { width: 2, ...staysOn }),
      text("/sink/kafka/name", "Name of the replication", {
        isFixed: true,
        hint: "Stands for the connector's id, where two services share a cluster.",
      }),
    ],
  },
  {
    title: "What cannot be sent",
    fields: [
      union(
        exhausted,
        "Then",
        { stop: "The connector stops there", park: "Set it aside, and go on with the rest" },
        {
          hint: "Too large, refused by the schema registry, or impossible to encode. Later rows of the same keys wait behind it.",
        },
      ),
      number(`${park}/max_messages`, "Most messages set aside", { under: park, width: 2 }),
      number(`${park}/max_bytes`, "Most bytes of them", { under: park, width: 2 }),
      number(`${park}/retry_every_minutes`, "Send them again every (minutes)", {
        under: park,
        width: 2,
        hint: "0: when somebody asks.",
      }),
    ],
  },
  receiptGroup,
  {
    title: "Producer",
    fields: [
      choice(`${config}/producer_preset`, "Tuned for", {
        None: "Both",
        LowLatency: "Low latency",
        Throughput: "Throughput",
      }),
      choice(`${config}/compression_type`, "Compression", {
        Lz4: "LZ4",
        None: "None",
        Gzip: "Gzip",
        Snappy: "Snappy",
        Zstd: "Zstd",
      }),
      choice(`${config}/acks`, "Acknowledged by", {
        All: "All replicas",
        Leader: "The leader alone",
        None: "Nobody (refused)",
      }),
      number(`${config}/linger_ms`, "Linger (ms)", { width: 2 }),
      number(`${config}/batch_size`, "Batch (bytes)", { width: 2 }),
      number(`${config}/message_max_bytes`, "Request (bytes)", { width: 2 }),
      number(`${config}/message_timeout_ms`, "For a message (ms)", { width: 2 }),
      text(`${config}/client_id`, "Client id"),
      pairs(`${config}/producer_properties`, "Properties of librdkafka", "key"),
    ],
  },
];
