// The message formats of every sink of messages: schemas, types, and defaults. webhook-format.ts and kafka/kafka-format.ts
// add what only their sinks have. The sinks encode the rows.

import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { nullable, oneOf, strictObject, taggedUnion } from "../request/schema-forms.ts";

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

const debeziumRequestFields = {
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
type DebeziumOptionsRequest = Static<typeof DebeziumOptionsRequestSchema>;

const debeziumFields = { ...switches, data_types: strictObject(dataTypes) };
const DebeziumOptionsSchema = strictObject(debeziumFields);
/** What every sink of messages does with Debezium's format. */
export type DebeziumOptions = Static<typeof DebeziumOptionsSchema>;

function completeDebeziumOptions(options: DebeziumOptionsRequest): DebeziumOptions {
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

// --- formats ---------------------------------------------------------------------------------

/** What a sink has of its own in the schemas of its formats: the unions of its serdes, and the headers of Debezium's messages. */
interface OwnSchemas<SR, S, HR, H> {
  readonly serdeRequest: SR;
  readonly serde: S;
  readonly headersRequest: HR;
  readonly headers: H;
  /** What `tombstones_on_delete` does. */
  readonly tombstones: string;
  readonly description: string;
}

export function formatSchemas<SR extends TSchema, S extends TSchema, HR extends TSchema, H extends TSchema>(
  own: OwnSchemas<SR, S, HR, H>,
) {
  const { serdeRequest, serde, headersRequest, headers, description } = own;
  const tombstones_on_delete = Type.Boolean({ description: own.tombstones });
  const configRequest = strictObject({
    value_serde: Type.Optional(serdeRequest),
    key_serde: Type.Optional(nullable(serdeRequest)),
  });
  const config = strictObject({ value_serde: serde, key_serde: nullable(serde) });
  const requestFields = {
    format_config: Type.Optional(configRequest),
    tombstones_on_delete: Type.Optional(tombstones_on_delete),
  };
  const nativeRequest = strictObject(requestFields);
  const native = strictObject({
    format_config: Type.Optional(config),
    tombstones_on_delete: Type.Optional(tombstones_on_delete),
  });
  const debeziumRequest = strictObject({
    ...requestFields,
    ...debeziumRequestFields,
    headers: headersRequest,
  });
  const debezium = strictObject({ format_config: config, tombstones_on_delete, ...debeziumFields, headers });
  return {
    configRequest,
    config,
    request: taggedUnion(
      {
        native: Type.Optional(nativeRequest),
        supermetal: Type.Optional(nativeRequest),
        debezium: Type.Optional(debeziumRequest),
      },
      { description },
    ),
    full: taggedUnion({
      native: Type.Optional(native),
      supermetal: Type.Optional(native),
      debezium: Type.Optional(debezium),
    }),
  };
}

interface NativeRequest<SR> {
  readonly format_config?: { readonly value_serde?: SR; readonly key_serde?: SR | null };
  readonly tombstones_on_delete?: boolean;
}

interface FormatRequest<SR, HR> {
  readonly native?: NativeRequest<SR>;
  readonly supermetal?: NativeRequest<SR>;
  readonly debezium?: NativeRequest<SR> & DebeziumOptionsRequest & { readonly headers?: HR };
}

/** The full form. Settings of a native format are optional and stay as sent; a debezium format has all of them. */
export function completeFormat<SR, S, HR, H>(
  { native = {}, supermetal, debezium }: FormatRequest<SR, HR>,
  completeSerde: (serde: SR | { readonly json: object }) => S,
  completeHeaders: (headers: HR | undefined) => H,
) {
  // Left out, a value is JSON, and a key has no serde of its own.
  const completeConfig = ({ value_serde, key_serde }: NonNullable<NativeRequest<SR>["format_config"]>) => ({
    value_serde: completeSerde(value_serde ?? { json: {} }),
    key_serde: key_serde ? completeSerde(key_serde) : null,
  });
  if (debezium) {
    const { format_config = {}, tombstones_on_delete = true, headers, ...options } = debezium;
    const config = { format_config: completeConfig(format_config), tombstones_on_delete };
    return { debezium: { ...config, ...completeDebeziumOptions(options), ...completeHeaders(headers) } };
  }
  const { format_config, tombstones_on_delete } = supermetal ?? native;
  const complete = {
    ...(format_config && { format_config: completeConfig(format_config) }),
    ...(tombstones_on_delete !== undefined && { tombstones_on_delete }),
  };
  return supermetal ? { supermetal: complete } : { native: complete };
}

/** What rows are encoded by. */
export type MessageFormat =
  | { readonly kind: "native"; readonly embedSchema: boolean }
  | { readonly kind: "debezium"; readonly embedSchema: boolean; readonly options: DebeziumOptions };
