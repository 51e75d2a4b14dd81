// Avro schemas of Connect schemas, by the rules of Confluent's AvroData: a converter there reads the same Connect schema out of it.
//
// A field that is optional is `["null", T]` with default null, so a column that is added or dropped keeps the schema compatible: readers of
// the new schema fill an added column with null. Which fields are optional is the Connect schema's word: all but the key's.

import type { ConnectSchema } from "../connect-schema.ts";
import { avroFieldNames, avroFullName } from "./avro-name.ts";

type Json = string | number | null | readonly Json[] | { readonly [name: string]: Json };

const decimalName = "org.apache.kafka.connect.data.Decimal";
/** What AvroData takes where a decimal does not tell its precision. */
const defaultPrecision = 64;

const primitives: Readonly<Record<string, string>> = {
  boolean: "boolean",
  int16: "int",
  int32: "int",
  int64: "long",
  float: "float",
  double: "double",
  string: "string",
  bytes: "bytes",
};

const logicalTypes: Readonly<Record<string, string>> = {
  [decimalName]: "decimal",
  "org.apache.kafka.connect.data.Date": "date",
  "org.apache.kafka.connect.data.Time": "time-millis",
  "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
};

export interface AvroSchema {
  /** As JSON. */
  readonly text: string;
  /** The full name of its record. */
  readonly name: string;
}

/** Of a struct that has a name and is not optional. */
export function avroSchema(struct: ConnectSchema): AvroSchema {
  return { text: JSON.stringify(typeOf(struct, new Set())), name: avroFullName(struct.name ?? "") };
}

/** `known`: records that stand in the schema already, and are referred to by their names. */
function typeOf(schema: ConnectSchema, known: Set<string>): Json {
  const type = schema.type === "struct" ? recordOf(schema, known) : valueTypeOf(schema, known);
  return schema.optional ? ["null", type] : type;
}

function recordOf(schema: ConnectSchema, known: Set<string>): Json {
  const fullName = avroFullName(schema.name ?? "");
  if (known.has(fullName)) return fullName;
  known.add(fullName);
  const dot = fullName.lastIndexOf(".");
  const fields = schema.fields ?? [];
  const names = avroFieldNames(fields.map(({ field }) => field));
  return {
    type: "record",
    name: fullName.slice(dot + 1),
    ...(dot > 0 ? { namespace: fullName.slice(0, dot) } : {}),
    fields: fields.map((field, index) => ({
      name: names[index]!,
      type: typeOf(field, known),
      ...(field.optional ? { default: null } : {}),
    })),
    ...connectAttributes({ ...schema, name: fullName }),
  };
}

function valueTypeOf(schema: ConnectSchema, known: Set<string>): Json {
  // The native form's own word for a document, which is text here.
  if (schema.type === "json") {
    return { type: "string", ...connectAttributes({ ...schema, name: "io.debezium.data.Json", version: 1 }) };
  }
  const attributes = {
    ...decimalAttributes(schema),
    ...connectAttributes(schema),
    ...(schema.type === "int16" ? { "connect.type": "int16" } : {}),
    ...logicalAttribute(schema),
  };
  if (schema.type === "array") return { type: "array", items: typeOf(schema.items!, known), ...attributes };
  const type = primitives[schema.type]!;
  return Object.keys(attributes).length === 0 ? type : { type, ...attributes };
}

function connectAttributes({ name, version, parameters }: ConnectSchema): Readonly<Record<string, Json>> {
  return {
    ...(version === undefined ? {} : { "connect.version": version }),
    ...(parameters === undefined ? {} : { "connect.parameters": parameters }),
    ...(name === undefined ? {} : { "connect.name": name }),
  };
}

/** A `numeric(2,5)` has a precision of 5 here: in Avro the scale counts towards the precision. */
function decimalAttributes({ name, parameters = {} }: ConnectSchema): Readonly<Record<string, Json>> {
  if (name !== decimalName) return {};
  const scale = Number(parameters.scale ?? 0);
  const precision = Number(parameters["connect.decimal.precision"] ?? defaultPrecision);
  return { scale, precision: Math.max(scale, precision) };
}

function logicalAttribute({ name }: ConnectSchema): Readonly<Record<string, Json>> {
  const logical = name === undefined ? undefined : logicalTypes[name];
  return logical === undefined ? {} : { logicalType: logical };
}
