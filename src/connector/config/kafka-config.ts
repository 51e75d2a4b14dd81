// The configuration of a Kafka sink: schemas and types of the request form and of the full form. In kafka/ are its
// settings, formats, defaults, and the rules between its fields.

import { type Static, type TSchema, Type } from "@sinclair/typebox";
import {
  clearableSecretInput,
  oneOf,
  secretInput,
  secretText,
  strictObject,
  wholeNumber,
} from "../request/schema-forms.ts";
import { KafkaFormatRequestSchema, KafkaFormatSchema } from "./kafka/kafka-format.ts";
import {
  longestTimeoutMs,
  producerFields,
  producerRequestFields,
  visibleText,
} from "./kafka/producer-settings.ts";
import { onExhausted } from "./parking-config.ts";

// --- connection ------------------------------------------------------------------------------

const brokerPort = "(?:[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5])";
const brokers = Type.Array(
  Type.String({
    maxLength: 300,
    pattern: `^(?:[A-Za-z0-9][A-Za-z0-9._\\-]*|\\[[0-9A-Fa-f:.]+\\]):${brokerPort}$`,
    description:
      "Expected host:port, or [address]:port for IPv6, without a scheme: as in broker-1.internal:9092.",
  }),
  {
    minItems: 1,
    maxItems: 100,
    description:
      "Brokers of one cluster that are asked for the others; no two are the same. They cannot change.",
  },
);

const location = (description: string) =>
  Type.Optional(
    Type.String({
      maxLength: 4096,
      pattern: "^/[^\\x01-\\x1f\\x7f]*$",
      description: `${description} An absolute path on the machine that the service runs on.`,
    }),
  );
const authFields = {
  mechanism: Type.Optional(
    oneOf(["Plain", "ScramSha256", "ScramSha512"], {
      description:
        "Required with a Sasl protocol, and with no other. OauthBearer and GssApi are known, and not supported yet.",
    }),
  ),
  username: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1024,
      pattern: "^[^\\x01-\\x1f\\x7f]+$",
      description: "User name. Required with a Sasl protocol, and with no other.",
    }),
  ),
  ssl_ca_location: location("PEM file of the certificates that brokers' are checked against."),
  ssl_certificate_location: location("PEM file of the client certificate; it needs a key."),
  ssl_key_location: location("PEM file of the private key of the client certificate."),
};
const protocol = oneOf(["Plaintext", "Ssl", "SaslPlaintext", "SaslSsl"], {
  description:
    "How brokers are reached. Left out: Plaintext. What a protocol does not use (`ssl_*` without Ssl, `mechanism`, `username` and " +
    "`password` without Sasl) is refused, as it would be ignored.",
});
const authTexts = {
  password: "Password. Required with a Sasl protocol, and with no other.",
  ssl_key_password: "Passphrase of the private key, if that is encrypted.",
  ssl_ca:
    "Certificates that brokers' are checked against, as PEM text, instead of `ssl_ca_location`. Left out: the system's.",
  ssl_certificate: "Client certificate, as PEM text, instead of `ssl_certificate_location`; it needs a key.",
  ssl_key: "Private key of the client certificate, as PEM text, instead of `ssl_key_location`.",
};

const AuthRequestSchema = strictObject({
  protocol: Type.Optional(protocol),
  ...authFields,
  password: secretInput(authTexts.password),
  ssl_key_password: clearableSecretInput(authTexts.ssl_key_password),
  ssl_ca: clearableSecretInput(authTexts.ssl_ca),
  ssl_certificate: clearableSecretInput(authTexts.ssl_certificate),
  ssl_key: clearableSecretInput(authTexts.ssl_key),
});
export type KafkaAuthRequest = Static<typeof AuthRequestSchema>;

const AuthSchema = strictObject({
  protocol,
  ...authFields,
  password: Type.Optional(secretText(authTexts.password)),
  ssl_key_password: Type.Optional(secretText(authTexts.ssl_key_password)),
  ssl_ca: Type.Optional(secretText(authTexts.ssl_ca)),
  ssl_certificate: Type.Optional(secretText(authTexts.ssl_certificate)),
  ssl_key: Type.Optional(secretText(authTexts.ssl_key)),
});
/** Secrets are present. A certificate has its key; each of them is a text or a path. */
export type KafkaAuth = Static<typeof AuthSchema>;

const propertyKey = visibleText(255, "Name of a property of librdkafka, as linger.ms.");
const propertyValue =
  "Its value, as text. One whose key holds password, secret, key or token is a secret. Left out: the stored one.";
const propertyLists = <V extends TSchema>(value: V) => {
  const item = strictObject({ key: propertyKey, value });
  return {
    global_properties: Type.Array(item, {
      maxItems: 100,
      description:
        "Properties of librdkafka. One that has a field of its own in `config` or `auth` outranks that field; others are refused.",
    }),
    producer_properties: Type.Array(item, {
      maxItems: 100,
      description: "As `global_properties`; one of these outranks one of those.",
    }),
  };
};
const requestProperties = propertyLists(secretInput(propertyValue));

const ConnectionRequestSchema = strictObject({
  brokers,
  auth: Type.Optional(AuthRequestSchema),
  config: Type.Optional(
    strictObject({
      ...producerRequestFields,
      global_properties: Type.Optional(requestProperties.global_properties),
      producer_properties: Type.Optional(requestProperties.producer_properties),
    }),
  ),
});
export type KafkaConnectionRequest = Static<typeof ConnectionRequestSchema>;

const ConnectionSchema = strictObject({
  brokers,
  auth: AuthSchema,
  config: strictObject({ ...producerFields, ...propertyLists(secretText(propertyValue)) }),
});
export type KafkaConnection = Static<typeof ConnectionSchema>;

// --- topics ----------------------------------------------------------------------------------

const topicNameTemplate = Type.String({
  minLength: 1,
  maxLength: 1024,
  pattern:
    "^(?:[^\\{\\}\\x01-\\x1f\\x7f]|\\{database\\}|\\{schema\\}|\\{table\\}|\\{database_or_schema\\})+$",
  description:
    "Name of a table's topic; `{database}`, `{schema}`, `{table}` and `{database_or_schema}`, which is the schema for Postgres, are " +
    "replaced. Tables of one topic are refused where the template tells them apart. Left out: `millrace.{database_or_schema}.{table}`.",
});
const topicFields = {
  partitions: wholeNumber({ minimum: 1, maximum: 100_000, description: "Left out: 1." }),
  replication_factor: wholeNumber({ minimum: 1, maximum: 32_767, description: "Left out: 1." }),
  naming_mode: oneOf(["Default", "Unicode"], {
    description:
      "What becomes of characters outside `A-Za-z0-9._-`. Default, also if left out: `_`. Unicode: `_u` and four hexadecimal digits.",
  }),
  operation_timeout_ms: wholeNumber({
    minimum: 1,
    maximum: longestTimeoutMs,
    description: "Bound of making one topic. Left out: 30000.",
  }),
};
const topicConfig = Type.Array(
  strictObject({
    key: visibleText(255, "Name of a topic's setting, as cleanup.policy."),
    value: Type.String({ maxLength: 8192 }),
  }),
  { maxItems: 100, description: "Settings that topics are made with; no key is given twice." },
);
const topicsDescription = "For topics that are made. One that is there is left as it is.";

const exhausted = onExhausted(
  "rows of which no message can be sent: it would be too large, the registry refuses its schema, or it cannot be encoded",
);

// --- request form and full form --------------------------------------------------------------

const replicationName = Type.Optional(
  visibleText(
    249,
    "Name of the replication, which stands for the connector's id in the default `transactional_id` and as the checkpoint's key. " +
      "It cannot change.",
  ),
);

export const KafkaSinkRequestSchema = strictObject({
  connection: ConnectionRequestSchema,
  format: KafkaFormatRequestSchema,
  name: replicationName,
  topic_name_template: Type.Optional(topicNameTemplate),
  topic_options: strictObject(
    {
      partitions: Type.Optional(topicFields.partitions),
      replication_factor: Type.Optional(topicFields.replication_factor),
      config: Type.Optional(topicConfig),
      naming_mode: Type.Optional(topicFields.naming_mode),
      operation_timeout_ms: Type.Optional(topicFields.operation_timeout_ms),
    },
    { description: `${topicsDescription} \`{}\` takes every default.` },
  ),
  on_exhausted: Type.Optional(exhausted.request),
});
export type KafkaSinkRequest = Static<typeof KafkaSinkRequestSchema>;

export const KafkaSinkConfigSchema = strictObject({
  connection: ConnectionSchema,
  format: KafkaFormatSchema,
  name: replicationName,
  topic_name_template: topicNameTemplate,
  topic_options: strictObject({ ...topicFields, config: topicConfig }, { description: topicsDescription }),
  on_exhausted: exhausted.full,
});
/** Every default is filled, secrets are present. `withProperties` applies the property lists to it. */
export type KafkaSinkConfig = Static<typeof KafkaSinkConfigSchema>;

export type NamingMode = KafkaSinkConfig["topic_options"]["naming_mode"];

// --- identity --------------------------------------------------------------------------------

/** Fences whatever else still runs under it. */
export function transactionalId(
  connectorId: string,
  sink: Pick<KafkaSinkConfig, "connection" | "name">,
): string {
  const { transactional_id: chosen } = sink.connection.config.transactions;
  return chosen ?? `millrace-${checkpointKey(connectorId, sink)}`;
}

/**
 * The key of the connector's records in the topic of checkpoints. `name` counts, so that connectors of one id at two
 * services do not share a checkpoint in one cluster.
 */
export function checkpointKey(connectorId: string, { name }: Pick<KafkaSinkConfig, "name">): string {
  return name ?? connectorId;
}
