// Random valid Kafka sinks, in which everything that may be left out sometimes is.

import fc from "fast-check";
import { testRootCertificate, testServerCertificate, testServerKey } from "../servers/tls-certificates.ts";

const text = fc.stringMatching(/^[a-z][a-z0-9_]{0,12}$/);
const secret = fc.stringMatching(/^secret-[a-z0-9]{4,12}$/);
const whole = fc.integer({ min: 1, max: 1000 });
const thousands = fc.integer({ min: 1000, max: 100_000 });
const words = <const T extends readonly string[]>(...list: T) => fc.constantFrom(...list);
const some = <T extends Record<string, fc.Arbitrary<unknown>>>(members: T) =>
  fc.record(members, { requiredKeys: [] });
/** With text before the PEM that tells two apart. */
const pem = (body: string) => secret.map((note) => `${note}\n${body}`);

// --- connection ------------------------------------------------------------------------------

const logIn = { mechanism: words("Plain", "ScramSha256", "ScramSha512"), username: text };
const material = fc.oneof(
  fc.constant({}),
  fc.record({ ssl_ca: pem(testRootCertificate) }),
  fc.record({ ssl_ca_location: fc.constant("/etc/ssl/ca.pem") }),
  fc.record({ ssl_certificate: pem(testServerCertificate), ssl_key: pem(testServerKey) }),
  fc.record({
    ssl_certificate: pem(testServerCertificate),
    ssl_key_location: fc.constant("/etc/ssl/client.key"),
    ssl_key_password: secret,
  }),
);
const sasl = fc.record({ protocol: words("SaslPlaintext"), ...logIn, password: secret });
const saslSsl = fc
  .tuple(fc.record({ protocol: words("SaslSsl"), ...logIn, password: secret }), material)
  .map(([plain, tls]) => ({ ...plain, ...tls }));
const ssl = material.map((tls) => ({ protocol: "Ssl", ...tls }));
const plaintext = some({ protocol: words("Plaintext") });

const property = fc.oneof(
  fc.record({ key: words("linger.ms", "queue.buffering.max.ms"), value: whole.map(String) }),
  fc.record({ key: words("compression.codec"), value: words("gzip", "none") }),
  fc.record({ key: words("client.id"), value: text }),
);
const properties = fc.uniqueArray(property, {
  maxLength: 3,
  selector: ({ key }) => (key === "queue.buffering.max.ms" ? "linger.ms" : key),
});
const fields = {
  batch_size: whole,
  client_id: text,
  compression_type: words("Lz4", "None", "Gzip", "Snappy", "Zstd"),
  enable_idempotence: fc.boolean(),
  linger_ms: whole,
  message_max_bytes: thousands,
  message_send_max_retries: whole,
  message_timeout_ms: whole,
  partitioner: words("murmur2", "murmur2_random"),
  producer_pool_size: fc.constantFrom(0, 1),
  producer_preset: words("None", "LowLatency", "Throughput"),
  queue_buffering_max_kbytes: whole,
  queue_buffering_max_messages: whole,
  retry_backoff_ms: whole,
  retry_backoff_max_ms: whole,
  shutdown_flush_timeout_ms: whole,
  timeout_ms: whole,
  topic_metadata_refresh_interval_ms: whole,
};
const transactions = some({
  enabled: fc.boolean(),
  op_timeout_ms: whole,
  timeout_ms: thousands,
  transactional_id: text,
});
const lists = { global_properties: properties, producer_properties: properties };
const config = fc.oneof(
  some({ ...fields, ...lists, acks: words("All"), transactions }),
  fc
    .tuple(some(lists), fc.record({ acks: words("Leader"), transactions: fc.constant({ enabled: false }) }))
    .map(([rest, loose]) => ({ ...rest, ...loose })),
);

const brokers = fc
  .uniqueArray(text, { minLength: 1, maxLength: 3 })
  .map((hosts) => hosts.map((host) => `${host}:9092`));
const connection = fc.oneof(
  fc.record(
    { brokers, auth: fc.oneof(plaintext, sasl, ssl, saslSsl), config },
    { requiredKeys: ["brokers"] },
  ),
  fc.record({
    brokers,
    auth: fc.record({ protocol: words("SaslPlaintext"), ...logIn }),
    config: fc.record({
      producer_properties: fc.tuple(fc.record({ key: words("sasl.password"), value: secret })),
    }),
  }),
);

// --- format ----------------------------------------------------------------------------------

const registry = fc.oneof(
  fc.record({ url: fc.constant("http://registry:8081") }),
  fc.record({ url: fc.constant("http://registry:8081"), username: text, password: secret }),
  fc.record({ url: fc.constant("https://registry"), ssl_ca: pem(testRootCertificate) }),
);
const json = fc.record({
  json: some({
    options: some({ embed_schema_in_message: fc.boolean() }),
    schema_registry: fc.constant(null),
  }),
});
const avro = fc.record({
  avro: fc.record(
    {
      options: some({
        auto_register: fc.boolean(),
        subject_name_strategy: words("TopicName", "RecordName", "TopicRecordName"),
      }),
      schema_registry: registry,
    },
    { requiredKeys: ["schema_registry"] },
  ),
});
const serde = fc.oneof(json, avro);
const formatFields = {
  format_config: some({ value_serde: serde, key_serde: fc.option(serde) }),
  tombstones_on_delete: fc.boolean(),
};
const switches = { op: fc.boolean(), tbl: fc.boolean(), context: fc.boolean(), pk_update: fc.boolean() };
const headers = fc.oneof(
  some({ ...switches, prefix: words("", "cdc."), op_name: words("operation") }),
  fc.record({ source_name: words("origin"), source_template: words("{connector}/{table}") }),
);
const format = fc.oneof(
  fc.record({ native: some(formatFields) }),
  fc.record({ supermetal: some(formatFields) }),
  fc.record({
    debezium: some({
      ...formatFields,
      include_before: fc.boolean(),
      skipped_operations: words("t", "none", "c,u"),
      data_types: some({ binary_handling_mode: words("Bytes", "Hex") }),
      headers,
    }),
  }),
);

/** What `sink.kafka` may be. */
export const randomKafkaSink = fc.record(
  {
    connection,
    format,
    name: text,
    topic_name_template: words("{table}", "cdc.{database}.{schema}.{table}", "all"),
    topic_options: some({
      partitions: whole,
      replication_factor: whole,
      config: fc.uniqueArray(fc.record({ key: words("cleanup.policy", "retention.ms"), value: text }), {
        maxLength: 2,
        selector: ({ key }) => key,
      }),
      naming_mode: words("Default", "Unicode"),
      operation_timeout_ms: whole,
    }),
  },
  { requiredKeys: ["connection", "format", "topic_options"] },
);
