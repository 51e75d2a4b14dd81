// The message formats of a Kafka sink: what it has beside those of every sink (message-format.ts), which is Avro, the serde
// of keys, and Debezium's headers.

import { type Static, Type } from "@sinclair/typebox";
import {
  clearableSecretInput,
  oneOf,
  secretInput,
  secretText,
  strictObject,
  taggedUnion,
} from "../../request/schema-forms.ts";
import {
  completeFormat,
  completeJsonSerde,
  formatSchemas,
  JsonSerdeRequestSchema,
  JsonSerdeSchema,
  type MessageFormat,
} from "../message-format.ts";
import { completeHeaders, DebeziumHeadersRequestSchema, DebeziumHeadersSchema } from "./debezium-headers.ts";

/** Serdes whose names are known, but which are not built. */
export const unbuiltKafkaSerdeKinds = ["protobuf"] as const;

// --- serdes ----------------------------------------------------------------------------------

const SubjectNameStrategySchema = oneOf(["TopicName", "RecordName", "TopicRecordName"], {
  description: "What a schema's subject at the registry is named for. Left out: the topic.",
});
const avroOptions = {
  auto_register: Type.Boolean({
    description: "Register schemas that the registry does not have. Left out: true.",
  }),
  subject_name_strategy: SubjectNameStrategySchema,
};
const registryAddress = {
  url: Type.String({
    minLength: 1,
    maxLength: 2048,
    pattern: "^[Hh][Tt][Tt][Pp][Ss]?://[^\\s\\x01-\\x1f\\x7f@#]+$",
    description: "Address of the schema registry, http or https, without user, password and fragment.",
  }),
  username: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1024,
      // RFC 7617: no colon in the user id; no control characters.
      pattern: "^[^:\\x01-\\x1f\\x7f]+$",
      description: "User name for HTTP Basic; it needs `password`.",
    }),
  ),
};
const registryTexts = {
  password: "Password for HTTP Basic.",
  ssl_ca: "Certificates that the registry's is checked against, as PEM text. Left out: the system's.",
  ssl_certificate: "Client certificate, as PEM text; it needs `ssl_key`.",
  ssl_key: "Private key of `ssl_certificate`, as PEM text.",
};

const AvroSerdeRequestSchema = strictObject({
  options: Type.Optional(
    strictObject({
      auto_register: Type.Optional(avroOptions.auto_register),
      subject_name_strategy: Type.Optional(avroOptions.subject_name_strategy),
    }),
  ),
  schema_registry: strictObject({
    ...registryAddress,
    password: secretInput(registryTexts.password),
    ssl_ca: clearableSecretInput(registryTexts.ssl_ca),
    ssl_certificate: clearableSecretInput(registryTexts.ssl_certificate),
    ssl_key: clearableSecretInput(registryTexts.ssl_key),
  }),
});
type AvroSerdeRequest = Static<typeof AvroSerdeRequestSchema>;

const SchemaRegistrySchema = strictObject({
  ...registryAddress,
  password: Type.Optional(secretText(registryTexts.password)),
  ssl_ca: Type.Optional(secretText(registryTexts.ssl_ca)),
  ssl_certificate: Type.Optional(secretText(registryTexts.ssl_certificate)),
  ssl_key: Type.Optional(secretText(registryTexts.ssl_key)),
});
/** Secrets are present. A client certificate has its key. */
export type SchemaRegistry = Static<typeof SchemaRegistrySchema>;
const AvroSerdeSchema = strictObject({
  options: strictObject(avroOptions),
  schema_registry: SchemaRegistrySchema,
});

const SerdeRequestSchema = taggedUnion(
  { json: Type.Optional(JsonSerdeRequestSchema), avro: Type.Optional(AvroSerdeRequestSchema) },
  { description: "`json`, or `avro` with the registry that its schemas are in." },
);
const SerdeSchema = taggedUnion({
  json: Type.Optional(JsonSerdeSchema),
  avro: Type.Optional(AvroSerdeSchema),
});
type Serde = Static<typeof SerdeSchema>;

// --- formats ---------------------------------------------------------------------------------

const schemas = formatSchemas({
  serdeRequest: SerdeRequestSchema,
  serde: SerdeSchema,
  headersRequest: Type.Optional(DebeziumHeadersRequestSchema),
  headers: DebeziumHeadersSchema,
  tombstones:
    "After the message of a DELETE, send its key with a null value, so that compaction removes the key. Left out: true.",
  description: "`native` (also `supermetal`), or `debezium`.",
});
export type KafkaFormatConfigRequest = Static<typeof schemas.configRequest>;

export const KafkaFormatRequestSchema = schemas.request;
export type KafkaFormatRequest = Static<typeof KafkaFormatRequestSchema>;

export const KafkaFormatSchema = schemas.full;
export type KafkaFormat = Static<typeof KafkaFormatSchema>;

// --- what the sink does with it --------------------------------------------------------------

export type MessageSerde =
  | { readonly kind: "json"; readonly embedSchema: boolean }
  | {
      readonly kind: "avro";
      readonly autoRegister: boolean;
      readonly subjectNameStrategy: Static<typeof SubjectNameStrategySchema>;
      readonly registry: SchemaRegistry;
    };

export interface KafkaMessages {
  readonly format: MessageFormat;
  readonly value: MessageSerde;
  readonly key: MessageSerde;
  readonly tombstones: boolean;
  /** Null: those of the native format. */
  readonly headers: Static<typeof DebeziumHeadersSchema> | null;
}

const plainJson: MessageSerde = { kind: "json", embedSchema: false };

/** The format, under whatever name it was sent. A key without a serde is Avro beside an Avro value, else JSON. */
export function kafkaMessages({ native, supermetal, debezium }: KafkaFormat): KafkaMessages {
  const { format_config: config, tombstones_on_delete = true } = debezium ?? native ?? supermetal ?? {};
  const value = config ? messageSerde(config.value_serde) : plainJson;
  const key = config?.key_serde ? messageSerde(config.key_serde) : null;
  const embedSchema = value.kind === "json" && value.embedSchema;
  return {
    format: debezium ? { kind: "debezium", embedSchema, options: debezium } : { kind: "native", embedSchema },
    value,
    key: key ?? (value.kind === "avro" ? value : plainJson),
    tombstones: tombstones_on_delete,
    headers: debezium?.headers ?? null,
  };
}

function messageSerde({ json, avro }: Serde): MessageSerde {
  if (!avro) return { kind: "json", embedSchema: json?.options.embed_schema_in_message ?? false };
  return {
    kind: "avro",
    autoRegister: avro.options.auto_register,
    subjectNameStrategy: avro.options.subject_name_strategy,
    registry: avro.schema_registry,
  };
}

// --- defaults --------------------------------------------------------------------------------

/** The full form. */
export function completeKafkaFormat(format: KafkaFormatRequest): KafkaFormat {
  return completeFormat(format, completeSerde, (headers = {}) => ({ headers: completeHeaders(headers) }));
}

function completeSerde({ json = {}, avro }: Static<typeof SerdeRequestSchema>): Serde {
  return avro ? { avro: completeAvro(avro) } : { json: completeJsonSerde(json) };
}

function completeAvro({
  options,
  schema_registry: registry,
}: AvroSerdeRequest): Static<typeof AvroSerdeSchema> {
  const { url, username, password, ssl_ca, ssl_certificate, ssl_key } = registry;
  return {
    options: {
      auto_register: options?.auto_register ?? true,
      subject_name_strategy: options?.subject_name_strategy ?? "TopicName",
    },
    schema_registry: {
      url,
      ...(username !== undefined && { username }),
      ...(password !== undefined && { password }),
      // An empty text is none: a variable of a file of connectors that is not set leaves it behind.
      ...(ssl_ca && { ssl_ca }),
      ...(ssl_certificate && { ssl_certificate }),
      ...(ssl_key && { ssl_key }),
    },
  };
}
