// The message formats of a webhook sink: schemas, types, and defaults. message-format.ts has what other sinks share.

import { type Static, Type } from "@sinclair/typebox";
import { freeFormObject, strictObject, taggedUnion } from "../request/schema-forms.ts";
import {
  completeDebeziumOptions,
  completeFormatConfig,
  completeJsonSerde,
  debeziumFields,
  debeziumRequestFields,
  embedsSchema,
  formatConfigRequestSchema,
  formatConfigSchema,
  JsonSerdeRequestSchema,
  JsonSerdeSchema,
  type MessageFormat,
} from "./message-format.ts";

/** Serdes whose names are known, but which are not built. */
export const unbuiltSerdeKinds = ["avro", "protobuf"] as const;

const SerdeRequestSchema = taggedUnion({ json: Type.Optional(JsonSerdeRequestSchema) });
const FormatConfigRequestSchema = formatConfigRequestSchema(SerdeRequestSchema);

const SerdeSchema = taggedUnion({ json: Type.Optional(JsonSerdeSchema) });
const FormatConfigSchema = formatConfigSchema(SerdeSchema);
type FormatConfig = Static<typeof FormatConfigSchema>;

const tombstones = Type.Boolean({ description: "No effect on a webhook, which has no keys to clear." });
const debeziumHeaders = freeFormObject("Accepted; no effect on a webhook.");

const NativeFormatRequestSchema = strictObject({
  format_config: Type.Optional(FormatConfigRequestSchema),
  tombstones_on_delete: Type.Optional(tombstones),
});
const NativeFormatSchema = strictObject({
  format_config: Type.Optional(FormatConfigSchema),
  tombstones_on_delete: Type.Optional(tombstones),
});

const DebeziumFormatRequestSchema = strictObject({
  format_config: Type.Optional(FormatConfigRequestSchema),
  tombstones_on_delete: Type.Optional(tombstones),
  ...debeziumRequestFields,
  headers: Type.Optional(debeziumHeaders),
});
const DebeziumFormatSchema = strictObject({
  format_config: FormatConfigSchema,
  tombstones_on_delete: tombstones,
  ...debeziumFields,
  headers: Type.Optional(debeziumHeaders),
});

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

/** The format, under whatever name it was sent. */
export function messageFormat(format: WebhookFormat): MessageFormat {
  if (format.debezium) {
    const { format_config: config, ...options } = format.debezium;
    return { kind: "debezium", embedSchema: embedsSchema(config.value_serde.json), options };
  }
  const config = (format.native ?? format.supermetal)?.format_config;
  return { kind: "native", embedSchema: embedsSchema(config?.value_serde.json) };
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
    ...(format.format_config && { format_config: completeConfig(format.format_config) }),
    ...(format.tombstones_on_delete !== undefined && { tombstones_on_delete: format.tombstones_on_delete }),
  };
}

function completeDebezium(
  format: Static<typeof DebeziumFormatRequestSchema>,
): Static<typeof DebeziumFormatSchema> {
  return {
    format_config: completeConfig(format.format_config ?? {}),
    tombstones_on_delete: format.tombstones_on_delete ?? true,
    ...completeDebeziumOptions(format),
    ...(format.headers && { headers: format.headers }),
  };
}

function completeConfig(config: Static<typeof FormatConfigRequestSchema>): FormatConfig {
  return completeFormatConfig(config, ({ json = {} }: Static<typeof SerdeRequestSchema>) => ({
    json: completeJsonSerde(json),
  }));
}
