// The message formats of a webhook sink: schemas, types, and defaults. The sink encodes the rows.

import { type Static, Type } from "@sinclair/typebox";
import { freeFormObject, nullable, oneOf, strictObject, taggedUnion } from "../request/schema-forms.ts";

/** Serdes whose names are known, but which are not built. */
export const unbuiltSerdeKinds = ["avro", "protobuf"] as const;

const embedSchema = Type.Boolean({ description: "Send `{schema, payload}` instead of the payload alone." });

const JsonSerdeRequestSchema = strictObject({
  options: Type.Optional(strictObject({ embed_schema_in_message: Type.Optional(embedSchema) })),
  schema_registry: Type.Optional(Type.Null()),
});
const SerdeRequestSchema = taggedUnion({ json: Type.Optional(JsonSerdeRequestSchema) });
const FormatConfigRequestSchema = strictObject({
  value_serde: Type.Optional(SerdeRequestSchema),
  key_serde: Type.Optional(nullable(SerdeRequestSchema)),
});

const SerdeSchema = taggedUnion({
  json: Type.Optional(
    strictObject({
      options: strictObject({ embed_schema_in_message: embedSchema }),
      schema_registry: Type.Null(),
    }),
  ),
});
const FormatConfigSchema = strictObject({ value_serde: SerdeSchema, key_serde: nullable(SerdeSchema) });
export type FormatConfig = Static<typeof FormatConfigSchema>;

const tombstones = Type.Boolean({ description: "No effect on a webhook, which has no keys to clear." });

// --- native ----------------------------------------------------------------------------------

const NativeFormatRequestSchema = strictObject({
  format_config: Type.Optional(FormatConfigRequestSchema),
  tombstones_on_delete: Type.Optional(tombstones),
});
const NativeFormatSchema = strictObject({
  format_config: Type.Optional(FormatConfigSchema),
  tombstones_on_delete: Type.Optional(tombstones),
});

// --- debezium --------------------------------------------------------------------------------

const dataTypes = {
  binary_handling_mode: oneOf(["Bytes", "Base64", "Base64UrlSafe", "Hex"]),
  decimal_handling_mode: oneOf(["Precise", "Double", "String"]),
  time_precision_mode: oneOf([
    "Adaptive",
    "AdaptiveTimeMicroseconds",
    "Connect",
    "IsoString",
    "Microseconds",
    "Nanoseconds",
  ]),
};
const debeziumFields = {
  include_before: Type.Boolean({ description: "Send the row as it was before." }),
  skipped_operations: Type.String({
    pattern: "^(?:none|(?:[cudrt](?:,\\s*[cudrt])*)?)$",
    description:
      "Operations that are not sent: letters of c, u, d, r, t with commas between them, or `none`.",
  }),
  emit_tx_metadata: Type.Boolean({
    description: "Say of each change which of its transaction's it is, and send each BEGIN and END.",
  }),
  tx_metadata_topic: Type.String({
    minLength: 1,
    maxLength: 255,
    description: "BEGIN and END bear this name as their table's, and the connector's id as their schema's.",
  }),
};
const debeziumHeaders = freeFormObject("Accepted; no effect on a webhook.");

const DebeziumFormatRequestSchema = strictObject({
  format_config: Type.Optional(FormatConfigRequestSchema),
  tombstones_on_delete: Type.Optional(tombstones),
  include_before: Type.Optional(debeziumFields.include_before),
  skipped_operations: Type.Optional(debeziumFields.skipped_operations),
  emit_tx_metadata: Type.Optional(debeziumFields.emit_tx_metadata),
  tx_metadata_topic: Type.Optional(debeziumFields.tx_metadata_topic),
  data_types: Type.Optional(
    strictObject({
      binary_handling_mode: Type.Optional(dataTypes.binary_handling_mode),
      decimal_handling_mode: Type.Optional(dataTypes.decimal_handling_mode),
      time_precision_mode: Type.Optional(dataTypes.time_precision_mode),
    }),
  ),
  headers: Type.Optional(debeziumHeaders),
});

const DebeziumFormatSchema = strictObject({
  format_config: FormatConfigSchema,
  tombstones_on_delete: tombstones,
  ...debeziumFields,
  data_types: strictObject(dataTypes),
  headers: Type.Optional(debeziumHeaders),
});
export type DebeziumFormat = Static<typeof DebeziumFormatSchema>;

// --- format ----------------------------------------------------------------------------------

export const WebhookFormatRequestSchema = taggedUnion(
  {
    native: Type.Optional(NativeFormatRequestSchema),
    supermetal: Type.Optional(NativeFormatRequestSchema),
    debezium: Type.Optional(DebeziumFormatRequestSchema),
  },
  { description: "`native` (also `supermetal`), or `debezium`. Left out: native." },
);
export type WebhookFormatRequest = Static<typeof WebhookFormatRequestSchema>;

export const WebhookFormatSchema = taggedUnion({
  native: Type.Optional(NativeFormatSchema),
  supermetal: Type.Optional(NativeFormatSchema),
  debezium: Type.Optional(DebeziumFormatSchema),
});
export type WebhookFormat = Static<typeof WebhookFormatSchema>;

export type MessageFormat =
  | { readonly kind: "native"; readonly embedSchema: boolean }
  | { readonly kind: "debezium"; readonly embedSchema: boolean; readonly options: DebeziumFormat };

/** The format, under whatever name it was sent. */
export function messageFormat(format: WebhookFormat): MessageFormat {
  if (format.debezium) {
    return {
      kind: "debezium",
      embedSchema: embedsSchema(format.debezium.format_config),
      options: format.debezium,
    };
  }
  return { kind: "native", embedSchema: embedsSchema((format.native ?? format.supermetal)?.format_config) };
}

function embedsSchema(config: FormatConfig | undefined): boolean {
  return config?.value_serde.json?.options.embed_schema_in_message ?? false;
}

// --- defaults --------------------------------------------------------------------------------

/** The full form. Settings of a native format are optional and stay as sent; a debezium format has all of them. */
export function completeWebhookFormat(format: WebhookFormatRequest): WebhookFormat {
  if (format.debezium) return { debezium: completeDebezium(format.debezium) };
  if (format.supermetal) return { supermetal: completeNative(format.supermetal) };
  return { native: completeNative(format.native ?? {}) };
}

function completeNative(format: Static<typeof NativeFormatRequestSchema>): Static<typeof NativeFormatSchema> {
  return {
    ...(format.format_config && { format_config: completeFormatConfig(format.format_config) }),
    ...(format.tombstones_on_delete !== undefined && { tombstones_on_delete: format.tombstones_on_delete }),
  };
}

function completeDebezium(format: Static<typeof DebeziumFormatRequestSchema>): DebeziumFormat {
  return {
    format_config: completeFormatConfig(format.format_config ?? {}),
    tombstones_on_delete: format.tombstones_on_delete ?? true,
    include_before: format.include_before ?? true,
    skipped_operations: format.skipped_operations ?? "t",
    emit_tx_metadata: format.emit_tx_metadata ?? false,
    tx_metadata_topic: format.tx_metadata_topic ?? "transaction",
    data_types: {
      binary_handling_mode: format.data_types?.binary_handling_mode ?? "Bytes",
      decimal_handling_mode: format.data_types?.decimal_handling_mode ?? "Precise",
      time_precision_mode: format.data_types?.time_precision_mode ?? "Adaptive",
    },
    ...(format.headers && { headers: format.headers }),
  };
}

function completeFormatConfig(config: Static<typeof FormatConfigRequestSchema>): FormatConfig {
  return {
    value_serde: completeSerde(config.value_serde ?? { json: {} }),
    key_serde: config.key_serde ? completeSerde(config.key_serde) : null,
  };
}

function completeSerde(serde: Static<typeof SerdeRequestSchema>): Static<typeof SerdeSchema> {
  const embed = serde.json?.options?.embed_schema_in_message ?? false;
  return { json: { options: { embed_schema_in_message: embed }, schema_registry: null } };
}
