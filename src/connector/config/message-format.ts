// The message formats that every sink of messages shares: parts of schemas, types, and defaults. webhook-format.ts and
// kafka/kafka-format.ts make the formats of their sinks of them. The sinks encode the rows.

import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { nullable, oneOf, strictObject } from "../request/schema-forms.ts";

// --- serdes ----------------------------------------------------------------------------------

const embedSchema = Type.Boolean({ description: "Send `{schema, payload}` instead of the payload alone." });

export const JsonSerdeRequestSchema = strictObject({
  options: Type.Optional(strictObject({ embed_schema_in_message: Type.Optional(embedSchema) })),
  schema_registry: Type.Optional(Type.Null()),
});
export const JsonSerdeSchema = strictObject({
  options: strictObject({ embed_schema_in_message: embedSchema }),
  schema_registry: Type.Null(),
});
type JsonSerde = Static<typeof JsonSerdeSchema>;

export function completeJsonSerde(serde: Static<typeof JsonSerdeRequestSchema>): JsonSerde {
  const embed = serde.options?.embed_schema_in_message ?? false;
  return { options: { embed_schema_in_message: embed }, schema_registry: null };
}

export function embedsSchema(serde: JsonSerde | undefined): boolean {
  return serde?.options.embed_schema_in_message ?? false;
}

/** `serde`: the union of the sink's serdes. */
export function formatConfigRequestSchema<S extends TSchema>(serde: S) {
  return strictObject({
    value_serde: Type.Optional(serde),
    key_serde: Type.Optional(nullable(serde)),
  });
}

export function formatConfigSchema<S extends TSchema>(serde: S) {
  return strictObject({ value_serde: serde, key_serde: nullable(serde) });
}

/** Left out, a value is JSON, and a key has no serde of its own. */
export function completeFormatConfig<R, S>(
  config: { readonly value_serde?: R; readonly key_serde?: R | null },
  completeSerde: (serde: R | { readonly json: object }) => S,
): { value_serde: S; key_serde: S | null } {
  return {
    value_serde: completeSerde(config.value_serde ?? { json: {} }),
    key_serde: config.key_serde ? completeSerde(config.key_serde) : null,
  };
}

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
const switches = {
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

export const debeziumRequestFields = {
  include_before: Type.Optional(switches.include_before),
  skipped_operations: Type.Optional(switches.skipped_operations),
  emit_tx_metadata: Type.Optional(switches.emit_tx_metadata),
  tx_metadata_topic: Type.Optional(switches.tx_metadata_topic),
  data_types: Type.Optional(
    strictObject({
      binary_handling_mode: Type.Optional(dataTypes.binary_handling_mode),
      decimal_handling_mode: Type.Optional(dataTypes.decimal_handling_mode),
      time_precision_mode: Type.Optional(dataTypes.time_precision_mode),
    }),
  ),
};
const DebeziumOptionsRequestSchema = strictObject(debeziumRequestFields);

export const debeziumFields = { ...switches, data_types: strictObject(dataTypes) };
const DebeziumOptionsSchema = strictObject(debeziumFields);
/** What every sink of messages does with Debezium's format. */
export type DebeziumOptions = Static<typeof DebeziumOptionsSchema>;

export function completeDebeziumOptions(
  options: Static<typeof DebeziumOptionsRequestSchema>,
): DebeziumOptions {
  return {
    include_before: options.include_before ?? true,
    skipped_operations: options.skipped_operations ?? "t",
    emit_tx_metadata: options.emit_tx_metadata ?? false,
    tx_metadata_topic: options.tx_metadata_topic ?? "transaction",
    data_types: {
      binary_handling_mode: options.data_types?.binary_handling_mode ?? "Bytes",
      decimal_handling_mode: options.data_types?.decimal_handling_mode ?? "Precise",
      time_precision_mode: options.data_types?.time_precision_mode ?? "Adaptive",
    },
  };
}

// --- format ----------------------------------------------------------------------------------

/** What rows are encoded by. */
export type MessageFormat =
  | { readonly kind: "native"; readonly embedSchema: boolean }
  | { readonly kind: "debezium"; readonly embedSchema: boolean; readonly options: DebeziumOptions };
