// The property lists of a Kafka sink: names of librdkafka, each for a setting of `config` or `auth` that it outranks. Pure.
// https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md

import { type TSchema, Type } from "@sinclair/typebox";
import type { Violation } from "../../../errors/millrace-error.ts";
import { copyJson, isJsonObject, type JsonObject } from "../../request/merge-patch.ts";
import { schemaViolations } from "../../request/violations.ts";
import type { KafkaConnection, KafkaConnectionRequest, KafkaSinkConfig } from "../kafka-config.ts";
import { ProducerSchema } from "./producer-settings.ts";

type Value = string | number | boolean;

interface KnownProperty {
  readonly names: readonly string[];
  /** Keys of the setting, from the connection down. */
  readonly setting: readonly string[];
  readonly schema: TSchema;
  /** The setting's words, by those of librdkafka, in lower case. */
  readonly words?: Readonly<Record<string, Value>>;
}

const { properties: producer } = ProducerSchema;
const logIn = Type.String({ minLength: 1, maxLength: 8192 });

const setting = (
  names: string,
  key: keyof typeof producer,
  words?: KnownProperty["words"],
): KnownProperty => ({
  names: names.split(" "),
  setting: ["config", key],
  schema: producer[key],
  ...(words && { words }),
});
const logInSetting = (name: string, key: string): KnownProperty => ({
  names: [name],
  setting: ["auth", key],
  schema: logIn,
});

const knownProperties: readonly KnownProperty[] = [
  setting("acks request.required.acks", "acks", { all: "All", "-1": "All", "1": "Leader", "0": "None" }),
  setting("batch.size", "batch_size"),
  setting("client.id", "client_id"),
  setting("compression.type compression.codec", "compression_type", {
    none: "None",
    gzip: "Gzip",
    snappy: "Snappy",
    lz4: "Lz4",
    zstd: "Zstd",
  }),
  setting("enable.idempotence", "enable_idempotence", { true: true, false: false }),
  setting("linger.ms queue.buffering.max.ms", "linger_ms"),
  setting("message.max.bytes", "message_max_bytes"),
  setting("message.send.max.retries retries", "message_send_max_retries"),
  setting("message.timeout.ms delivery.timeout.ms", "message_timeout_ms"),
  setting("partitioner", "partitioner"),
  setting("queue.buffering.max.kbytes", "queue_buffering_max_kbytes"),
  setting("queue.buffering.max.messages", "queue_buffering_max_messages"),
  setting("request.timeout.ms", "timeout_ms"),
  setting("retry.backoff.ms", "retry_backoff_ms"),
  setting("retry.backoff.max.ms", "retry_backoff_max_ms"),
  setting("topic.metadata.refresh.interval.ms metadata.max.age.ms", "topic_metadata_refresh_interval_ms"),
  {
    names: ["transaction.timeout.ms"],
    setting: ["config", "transactions", "timeout_ms"],
    schema: producer.transactions.properties.timeout_ms,
  },
  logInSetting("sasl.password", "password"),
  logInSetting("sasl.username", "username"),
  logInSetting("ssl.key.password", "ssl_key_password"),
];
const byName = new Map(knownProperties.flatMap((known) => known.names.map((name) => [name, known] as const)));

/** Properties that would change what is fixed or checked elsewhere, and the fields to set instead. */
const fieldsInstead = new Map([
  ["bootstrap.servers", "connection.brokers"],
  ["metadata.broker.list", "connection.brokers"],
  ["security.protocol", "auth.protocol"],
  ["sasl.mechanism", "auth.mechanism"],
  ["sasl.mechanisms", "auth.mechanism"],
  ["ssl.ca.location", "auth.ssl_ca_location"],
  ["ssl.ca.pem", "auth.ssl_ca"],
  ["ssl.certificate.location", "auth.ssl_certificate_location"],
  ["ssl.certificate.pem", "auth.ssl_certificate"],
  ["ssl.key.location", "auth.ssl_key_location"],
  ["ssl.key.pem", "auth.ssl_key"],
  ["transactional.id", "config.transactions.transactional_id"],
]);

const listNames = ["global_properties", "producer_properties"] as const;
const connectionPath = "/sink/kafka/connection";

interface ListedProperty {
  readonly name: string;
  /** Absent or `"***"`: the stored one. */
  readonly value: string | undefined;
  readonly path: string;
}

/** Both lists, the producer's last: of two for one setting the last one counts. */
function listed({ config }: KafkaConnectionRequest): readonly ListedProperty[][] {
  return listNames.map((list) =>
    (config?.[list] ?? []).map(({ key, value }, index) => ({
      name: key,
      value,
      path: `${connectionPath}/config/${list}/${index}`,
    })),
  );
}

/** Whether a property stands for a setting of the connection, also one whose value is stored. */
export function hasProperty(connection: KafkaConnectionRequest, ...setting: readonly string[]): boolean {
  return listed(connection)
    .flat()
    .some(({ name }) => Bun.deepEquals(byName.get(name)?.setting, setting));
}

export function isSecretProperty(key: string): boolean {
  return /password|secret|key|token/i.test(key);
}

/** Unknown names, values that cannot be, and settings that a list has twice. */
export function propertyViolations(connection: KafkaConnectionRequest): Violation[] {
  return listed(connection).flatMap((list) => [...list.flatMap(wrongProperty), ...repeated(list)]);
}

function wrongProperty({ name, value, path }: ListedProperty): Violation[] {
  const known = byName.get(name);
  if (!known) return [{ path: `${path}/key`, message: unknownProperty(name) }];
  if (isStored(value)) return [];
  const message = valueProblem(known, value);
  return message === null ? [] : [{ path: `${path}/value`, message }];
}

function unknownProperty(name: string): string {
  const field = fieldsInstead.get(name);
  if (field !== undefined) return `set ${field} instead`;
  return `not a property that is used here, so it would be ignored; known are ${[...byName.keys()].sort().join(", ")}`;
}

function repeated(list: readonly ListedProperty[]): Violation[] {
  const seen = new Set<KnownProperty>();
  return list.flatMap(({ name, path }): Violation[] => {
    const known = byName.get(name);
    if (known === undefined) return [];
    const isRepeated = seen.has(known);
    seen.add(known);
    return isRepeated
      ? [{ path: `${path}/key`, message: "another property of this list sets the same" }]
      : [];
  });
}

// --- values ----------------------------------------------------------------------------------

function isStored(value: string | undefined): value is undefined {
  return value === undefined || value === "***";
}

function valueProblem(known: KnownProperty, text: string): string | null {
  const value = parsedValue(known, text);
  if (value !== undefined) return schemaViolations(known.schema, value)[0]?.message ?? null;
  return known.words ? `expected one of: ${Object.keys(known.words).join(", ")}` : "expected a whole number";
}

/** Undefined: the text cannot be one. It may be out of the setting's bounds. */
function parsedValue({ words, schema }: KnownProperty, text: string): Value | undefined {
  if (words) return Object.hasOwn(words, text.toLowerCase()) ? words[text.toLowerCase()] : undefined;
  if (schema.type !== "integer") return text;
  return /^-?\d{1,15}$/.test(text) ? Number(text) : undefined;
}

interface Override {
  readonly setting: readonly string[];
  readonly value: Value;
  readonly path: string;
}

/** In the order in which they apply; properties that break a rule are left out. */
function overrides(connection: KafkaConnectionRequest): readonly Override[] {
  return listed(connection)
    .flat()
    .flatMap(({ name, value: text, path }): Override[] => {
      const known = byName.get(name);
      if (!known || isStored(text) || valueProblem(known, text) !== null) return [];
      const value = parsedValue(known, text);
      return value === undefined ? [] : [{ setting: known.setting, value, path: `${path}/value` }];
    });
}

/** Where a setting of the connection comes from: the property that outranks it, or its own field. */
export function settingPath(connection: KafkaConnectionRequest, ...setting: readonly string[]): string {
  const last = overrides(connection).findLast((each) => Bun.deepEquals(each.setting, setting));
  return last?.path ?? `${connectionPath}/${setting.join("/")}`;
}

/** The connection with its properties in the fields that they outrank. The lists stay. */
export function effectiveConnection(connection: KafkaConnection): KafkaConnection {
  const changed = copyJson(connection);
  for (const { setting, value } of overrides(connection))
    assign(changed as unknown as JsonObject, setting, value);
  return changed;
}

/** What the sink goes by: the full form with its properties in the fields that they outrank. */
export function withProperties(sink: KafkaSinkConfig): KafkaSinkConfig {
  return { ...sink, connection: effectiveConnection(sink.connection) };
}

function assign(target: JsonObject, [key = "", ...rest]: readonly string[], value: Value): void {
  const inner = target[key];
  if (rest.length === 0) target[key] = value;
  else if (isJsonObject(inner)) assign(inner, rest, value);
}
