// How Debezium's Postgres connector maps a column: a Kafka Connect type, its semantic name, and the writer
// of values.
// https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-data-types

import type { Column } from "../../../change/relation.ts";
import type { DebeziumOptions } from "../../../connector/config/message-format.ts";
import { type ConnectSchema, plain } from "../connect-schema.ts";
import { arrayWriter } from "../values/array-text.ts";
import { writeBase64, writeBoolean, writeFloat, writeInteger, writeString } from "../values/json-value.ts";
import { arrayDelimiter, arrayElementOid, TypeOid } from "../values/type-oid.ts";
import type { ValueWriter } from "../values/value-writer.ts";
import {
  decimalWriter,
  moneyWriter,
  timestampWriter,
  timeWriter,
  writeBase64UrlSafe,
  writeBit,
  writeBits,
  writeEpochDays,
  writeHex,
  writeHstore,
  writeIsoUtc,
  writeMicroDuration,
  writeNumberOrWord,
  writePoint,
  writeVariableScaleDecimal,
  writeZonedTime,
  writeZonedTimestamp,
} from "./debezium-value.ts";

export type DataTypeOptions = DebeziumOptions["data_types"];

export interface ColumnMapping {
  readonly write: ValueWriter;
  readonly schema: ConnectSchema;
}

/** A semantic name, which all have version 1. */
const named = (type: string, name: string, parameters?: Readonly<Record<string, string>>): ConnectSchema => ({
  type,
  optional: true,
  name,
  version: 1,
  ...(parameters ? { parameters } : {}),
});
const string: ColumnMapping = { write: writeString, schema: plain("string") };

export function mapColumn(column: Column, options: DataTypeOptions): ColumnMapping {
  const { typeOid, typmod, typeName } = column;
  const ofEnum = mapEnum(column);
  if (!typeName.endsWith("[]")) return ofEnum ?? mapType(typeOid, typmod, typeName, options);
  const elementOid = arrayElementOid(typeOid);
  const element = ofEnum ?? mapType(elementOid, typmod, typeName.slice(0, -2), options);
  return {
    write: arrayWriter(element.write, arrayDelimiter(column)),
    schema: { type: "array", optional: true, items: element.schema },
  };
}

/** Of an enum, or an element that is one, with the labels that it has by now; null: it is none. */
function mapEnum({ typeDefinitions = [] }: Column): ColumnMapping | null {
  let type = typeDefinitions.at(-1);
  while (type?.kind === "domain") {
    const under = type.base.of;
    type = typeDefinitions.find(({ schema, name }) => schema === under?.schema && name === under.name);
  }
  if (type?.kind !== "enum") return null;
  const allowed = type.labels.map(({ name }) => name).join(",");
  return { write: writeString, schema: named("string", "io.debezium.data.Enum", { allowed }) };
}

function mapType(oid: number, typmod: number, typeName: string, options: DataTypeOptions): ColumnMapping {
  switch (oid) {
    case TypeOid.bool:
      return { write: writeBoolean, schema: plain("boolean") };
    case TypeOid.int2:
      return { write: writeInteger, schema: plain("int16") };
    case TypeOid.int4:
      return { write: writeInteger, schema: plain("int32") };
    case TypeOid.int8:
    case TypeOid.oid:
      return { write: writeInteger, schema: plain("int64") };
    case TypeOid.float4:
      return { write: writeFloat, schema: plain("float") };
    case TypeOid.float8:
      return { write: writeFloat, schema: plain("double") };
    case TypeOid.numeric:
      return mapNumeric(typmod, options);
    case TypeOid.money: {
      const numeric = mapNumeric(((19 << 16) | 2) + 4, options);
      return { ...numeric, write: moneyWriter(numeric.write) };
    }
    case TypeOid.bytea:
      return mapBytes(options);
    case TypeOid.bit:
      if (typmod <= 1) return { write: writeBit, schema: plain("boolean") };
      return { write: writeBits, schema: bits(typmod) };
    case TypeOid.varbit:
      return { write: writeBits, schema: bits(typmod) };
    case TypeOid.json:
    case TypeOid.jsonb:
      return { write: writeString, schema: named("string", "io.debezium.data.Json") };
    case TypeOid.xml:
      return { write: writeString, schema: named("string", "io.debezium.data.Xml") };
    case TypeOid.uuid:
      return { write: writeString, schema: named("string", "io.debezium.data.Uuid") };
    case TypeOid.point:
      return { write: writePoint, schema: pointSchema };
    case TypeOid.interval:
      return { write: writeMicroDuration, schema: named("int64", "io.debezium.time.MicroDuration") };
    default:
      return mapTemporal(oid, typmod, options) ?? mapNamed(typeName);
  }
}

/** Types of extensions are known by their names only. */
function mapNamed(typeName: string): ColumnMapping {
  const bare = typeName.replace(/^.*\./, "");
  if (bare === "hstore") return { write: writeHstore, schema: named("string", "io.debezium.data.Json") };
  if (bare === "ltree") return { write: writeString, schema: named("string", "io.debezium.data.Ltree") };
  return string;
}

const bits = (length: number): ConnectSchema =>
  named("bytes", "io.debezium.data.Bits", { length: String(length > 0 ? length : 2_147_483_647) });

const pointSchema: ConnectSchema = {
  ...named("struct", "io.debezium.data.geometry.Point"),
  fields: [
    { type: "double", optional: false, field: "x" },
    { type: "double", optional: false, field: "y" },
    { type: "bytes", optional: true, field: "wkb" },
    { type: "int32", optional: true, field: "srid" },
  ],
};

function mapNumeric(typmod: number, options: DataTypeOptions): ColumnMapping {
  switch (options.decimal_handling_mode) {
    case "String":
      return string;
    case "Double":
      return { write: writeNumberOrWord, schema: plain("double") };
    case "Precise": {
      if (typmod < 4) {
        const name = "io.debezium.data.VariableScaleDecimal";
        return {
          write: writeVariableScaleDecimal,
          schema: { ...named("struct", name), fields: variableScale },
        };
      }
      // The scale is signed, in the lowest 11 bits. Where it is negative, the unscaled value has more digits instead.
      const signedScale = (((typmod - 4) & 0x7ff) ^ 1024) - 1024;
      const scale = Math.max(0, signedScale);
      const precision = (((typmod - 4) >> 16) & 0xffff) + scale - signedScale;
      const parameters = { scale: String(scale), "connect.decimal.precision": String(precision) };
      const schema = named("bytes", "org.apache.kafka.connect.data.Decimal", parameters);
      return { write: decimalWriter(scale), schema };
    }
    default:
      return options.decimal_handling_mode satisfies never;
  }
}

const variableScale = [
  { type: "int32", optional: false, field: "scale" },
  { type: "bytes", optional: false, field: "value" },
] as const;

function mapBytes(options: DataTypeOptions): ColumnMapping {
  switch (options.binary_handling_mode) {
    case "Bytes":
      // The JSON converter writes bytes as base64.
      return { write: writeBase64, schema: plain("bytes") };
    case "Base64":
      return { write: writeBase64, schema: plain("string") };
    case "Base64UrlSafe":
      return { write: writeBase64UrlSafe, schema: plain("string") };
    case "Hex":
      return { write: writeHex, schema: plain("string") };
    default:
      return options.binary_handling_mode satisfies never;
  }
}

function mapTemporal(oid: number, typmod: number, options: DataTypeOptions): ColumnMapping | null {
  switch (oid) {
    case TypeOid.timestamptz:
      return { write: writeZonedTimestamp, schema: named("string", "io.debezium.time.ZonedTimestamp") };
    case TypeOid.timetz:
      return { write: writeZonedTime, schema: named("string", "io.debezium.time.ZonedTime") };
    case TypeOid.date:
      return mapDate(options);
    case TypeOid.time:
      return mapTime(typmod, options);
    case TypeOid.timestamp:
      return mapTimestamp(typmod, options);
    default:
      return null;
  }
}

function mapDate({ time_precision_mode: mode }: DataTypeOptions): ColumnMapping {
  if (mode === "IsoString")
    return { write: writeIsoUtc, schema: named("string", "io.debezium.time.IsoDate") };
  const name = mode === "Connect" ? "org.apache.kafka.connect.data.Date" : "io.debezium.time.Date";
  return { write: writeEpochDays, schema: named("int32", name) };
}

/** A column's digits behind the second; without a typmod, 6. */
const precision = (typmod: number): number => (typmod < 0 ? 6 : typmod);

function mapTime(typmod: number, { time_precision_mode: mode }: DataTypeOptions): ColumnMapping {
  const micro = { write: timeWriter(1), schema: named("int64", "io.debezium.time.MicroTime") };
  switch (mode) {
    case "IsoString":
      return { write: writeIsoUtc, schema: named("string", "io.debezium.time.IsoTime") };
    case "Connect":
      return { write: timeWriter(1000), schema: named("int32", "org.apache.kafka.connect.data.Time") };
    case "Nanoseconds":
      return { write: timeWriter(1, "000"), schema: named("int64", "io.debezium.time.NanoTime") };
    case "Microseconds":
    case "AdaptiveTimeMicroseconds":
      return micro;
    case "Adaptive":
      if (precision(typmod) > 3) return micro;
      return { write: timeWriter(1000), schema: named("int32", "io.debezium.time.Time") };
    default:
      return mode satisfies never;
  }
}

function mapTimestamp(typmod: number, { time_precision_mode: mode }: DataTypeOptions): ColumnMapping {
  const micro = { write: timestampWriter(1n), schema: named("int64", "io.debezium.time.MicroTimestamp") };
  switch (mode) {
    case "IsoString":
      return { write: writeIsoUtc, schema: named("string", "io.debezium.time.IsoTimestamp") };
    case "Connect":
      return {
        write: timestampWriter(1000n),
        schema: named("int64", "org.apache.kafka.connect.data.Timestamp"),
      };
    case "Nanoseconds":
      return { write: timestampWriter(1n, "000"), schema: named("int64", "io.debezium.time.NanoTimestamp") };
    case "Microseconds":
      return micro;
    case "Adaptive":
    case "AdaptiveTimeMicroseconds":
      if (precision(typmod) > 3) return micro;
      return { write: timestampWriter(1000n), schema: named("int64", "io.debezium.time.Timestamp") };
    default:
      return mode satisfies never;
  }
}
