// Writers of single values of the Debezium format in Avro. The Connect schema of a column says which form its values have; the writer
// makes that form.
//
// What a form cannot hold is null, as where Debezium's connector warns and goes on: NaN and ±Infinity of a numeric under `Precise`,
// nanoseconds, microseconds and intervals beyond 64 bits. (The JSON form has words and longer numbers there.)

import type { Column } from "../../../change/relation.ts";
import type { ConnectSchema } from "../connect-schema.ts";
import {
  parseDate,
  parseIntervalUs,
  parseTimestampUs,
  plainDays,
  plainTimestampUs,
  plainTimeUs,
  textOf,
} from "../debezium/calendar.ts";
import type { DataTypeOptions } from "../debezium/debezium-column.ts";
import {
  hstoreJson,
  infinite,
  parseDecimal,
  plainMoney,
  twosComplement,
  writeIsoUtc,
  writeZonedTime,
  writeZonedTimestamp,
} from "../debezium/debezium-value.ts";
import type { ByteWriter } from "../values/byte-writer.ts";
import { ShortDecimal } from "../values/short-decimal.ts";
import { arrayDelimiter, arrayElementOid, TypeOid } from "../values/type-oid.ts";
import { avroArrayWriter } from "./avro-array.ts";
import { putDouble, writeDouble, writeFloat } from "./avro-float.ts";
import { writeBigLong, writeIntegerText, writeLong } from "./avro-long.ts";
import {
  unquoted,
  writeBoolean,
  writeBytes,
  writeLengthAndBytes,
  writeString,
  writeText,
} from "./avro-value.ts";
import type { AvroWriter } from "./avro-writer.ts";

/** `schema`: as `mapColumn` gives it for the column, whose domain is replaced. */
export function debeziumAvroWriter(
  column: Column,
  schema: ConnectSchema,
  options: DataTypeOptions,
): AvroWriter {
  if (schema.type !== "array") return scalarWriter(column.typeOid, schema, options);
  const element = scalarWriter(arrayElementOid(column.typeOid), schema.items!, options);
  return avroArrayWriter(element, arrayDelimiter(column));
}

function scalarWriter(oid: number, schema: ConnectSchema, options: DataTypeOptions): AvroWriter {
  if (oid === TypeOid.money) return moneyWriter(namedWriter(oid, schema) ?? typeWriter(schema));
  if (oid === TypeOid.bytea) return binaryWriter(options);
  return namedWriter(oid, schema) ?? typeWriter(schema);
}

function typeWriter({ type }: ConnectSchema): AvroWriter {
  switch (type) {
    case "boolean":
      return writeBoolean;
    case "int16":
    case "int32":
    case "int64":
      return writeIntegerText;
    case "float":
      return writeFloat;
    case "double":
      return writeDouble;
    default:
      return writeText;
  }
}

/** Null: the name does not change how the values of its type are written. */
function namedWriter(oid: number, { name, parameters }: ConnectSchema): AvroWriter | null {
  switch (name) {
    case "io.debezium.time.ZonedTimestamp":
      return unquoted(writeZonedTimestamp);
    case "io.debezium.time.ZonedTime":
      return unquoted(writeZonedTime);
    case "io.debezium.time.IsoDate":
    case "io.debezium.time.IsoTime":
    case "io.debezium.time.IsoTimestamp":
      return unquoted(writeIsoUtc);
    case "org.apache.kafka.connect.data.Decimal":
      return decimalWriter(Number(parameters?.scale));
    case "io.debezium.data.VariableScaleDecimal":
      return writeVariableScaleDecimal;
    case "io.debezium.data.Bits":
      return writeBits;
    case "io.debezium.data.geometry.Point":
      return writePoint;
    case "io.debezium.data.Json":
      return oid === TypeOid.json || oid === TypeOid.jsonb ? null : writeHstore;
    default:
      return name === undefined ? null : timeWriterOf(name);
  }
}

function timeWriterOf(name: string): AvroWriter | null {
  switch (name) {
    case "io.debezium.time.Date":
    case "org.apache.kafka.connect.data.Date":
      return writeEpochDays;
    case "io.debezium.time.Time":
    case "org.apache.kafka.connect.data.Time":
      return timeWriter(1 / 1000);
    case "io.debezium.time.MicroTime":
      return timeWriter(1);
    case "io.debezium.time.NanoTime":
      return timeWriter(1000);
    case "io.debezium.time.Timestamp":
    case "org.apache.kafka.connect.data.Timestamp":
      return writeMilliseconds;
    case "io.debezium.time.MicroTimestamp":
      return writeMicroseconds;
    case "io.debezium.time.NanoTimestamp":
      return writeNanoseconds;
    case "io.debezium.time.MicroDuration":
      return writeMicroDuration;
    default:
      return null;
  }
}

// --- date, time, timestamp ---------------------------------------------------------------------

const lastDay = 2_147_483_647;

/** Days since 1970-01-01; an infinite date is the end of int32. */
const writeEpochDays: AvroWriter = (out, source, start, end) => {
  const plain = plainDays(source, start, end);
  if (plain !== null) {
    writeLong(out, plain);
    return true;
  }
  const text = textOf(source, start, end);
  writeLong(out, parseDate(text) ?? (text.startsWith("-") ? -lastDay - 1 : lastDay));
  return true;
};

/** `perUs`: of the unit in a microsecond. */
function timeWriter(perUs: number): AvroWriter {
  return (out, source, start, end) => {
    const us = plainTimeUs(source, start, end);
    writeLong(out, perUs < 1 ? Math.floor(us / 1000) : us * perUs);
    return true;
  };
}

const writeMicroseconds: AvroWriter = (out, source, start, end) => {
  const plain = plainTimestampUs(source, start, end);
  if (plain === null) return writeRareTimestamp(out, source, start, end, (us) => us);
  writeLong(out, plain);
  return true;
};

const writeMilliseconds: AvroWriter = (out, source, start, end) => {
  const plain = plainTimestampUs(source, start, end);
  if (plain === null) return writeRareTimestamp(out, source, start, end, flooredMs);
  writeLong(out, Math.floor(plain / 1000));
  return true;
};

const flooredMs = (us: bigint): bigint => us / 1000n - (us % 1000n < 0n ? 1n : 0n);

const writeNanoseconds: AvroWriter = (out, source, start, end) => {
  const plain = plainTimestampUs(source, start, end);
  if (plain === null) return writeRareTimestamp(out, source, start, end, (us) => us * 1000n);
  return writeBigLong(out, BigInt(plain) * 1000n);
};

function writeRareTimestamp(
  out: ByteWriter,
  source: Uint8Array,
  start: number,
  end: number,
  inUnit: (us: bigint) => bigint,
): boolean {
  const text = textOf(source, start, end);
  const us = parseTimestampUs(text);
  return writeBigLong(out, us === null ? infinite(text) : inUnit(us));
}

const writeMicroDuration: AvroWriter = (out, source, start, end) => {
  const text = textOf(source, start, end);
  return writeBigLong(out, parseIntervalUs(text) ?? infinite(text));
};

// --- numeric -----------------------------------------------------------------------------------

const short = new ShortDecimal();

function putShort(out: ByteWriter): true {
  writeLengthAndBytes(out, short.bytes, short.from, short.bytes.length);
  return true;
}

function putUnscaled(out: ByteWriter, unscaled: bigint): true {
  const bytes = twosComplement(unscaled);
  writeLengthAndBytes(out, bytes, 0, bytes.length);
  return true;
}

function decimalWriter(scale: number): AvroWriter {
  return (out, source, start, end) => {
    if (short.read(source, start, end, scale)) return putShort(out);
    const decimal = parseDecimal(textOf(source, start, end));
    if (!decimal) return false;
    return putUnscaled(out, decimal.unscaled * 10n ** BigInt(Math.max(0, scale - decimal.scale)));
  };
}

const writeVariableScaleDecimal: AvroWriter = (out, source, start, end) => {
  if (short.read(source, start, end)) {
    writeLong(out, short.scale);
    return putShort(out);
  }
  const decimal = parseDecimal(textOf(source, start, end));
  if (!decimal) return false;
  writeLong(out, decimal.scale);
  return putUnscaled(out, decimal.unscaled);
};

function moneyWriter(numeric: AvroWriter): AvroWriter {
  return (out, source, start, end) => {
    const bytes = new TextEncoder().encode(plainMoney(textOf(source, start, end)));
    return numeric(out, bytes, 0, bytes.length);
  };
}

// --- bytea, bits -------------------------------------------------------------------------------

function binaryWriter({ binary_handling_mode: mode }: DataTypeOptions): AvroWriter {
  switch (mode) {
    case "Bytes":
      return writeBytes;
    case "Base64":
      return base64Writer("base64");
    case "Base64UrlSafe":
      return base64Writer("base64url");
    case "Hex":
      return (out, source, start, end) => writeText(out, source, start + 2, end);
    default:
      return mode satisfies never;
  }
}

function base64Writer(alphabet: "base64" | "base64url"): AvroWriter {
  return (out, source, start, end) =>
    writeString(out, Uint8Array.fromHex(textOf(source, start + 2, end)).toBase64({ alphabet }));
}

/** A string of bits as bytes, little-endian: the last bit is the lowest of the first byte. */
const writeBits: AvroWriter = (out, source, start, end) => {
  const bytes = new Uint8Array(Math.ceil((end - start) / 8));
  for (let i = 0; i < end - start; i++) {
    if (source[end - 1 - i] === 49) bytes[i >> 3] = bytes[i >> 3]! | (1 << (i & 7));
  }
  writeLengthAndBytes(out, bytes, 0, bytes.length);
  return true;
};

// --- point, hstore -----------------------------------------------------------------------------

const wkbBytes = 21;

/** `(1.5,-2)` as x, y, its well-known binary and no spatial reference. */
const writePoint: AvroWriter = (out, source, start, end) => {
  const [x = 0, y = 0] = textOf(source, start + 1, end - 1)
    .split(",")
    .map(Number);
  putDouble(out, x);
  putDouble(out, y);
  out.byte(2);
  writeLong(out, wkbBytes);
  // Little-endian, and a point's number.
  out.all(Uint8Array.of(1, 1, 0, 0, 0));
  putDouble(out, x);
  putDouble(out, y);
  out.byte(0);
  return true;
};

const writeHstore: AvroWriter = (out, source, start, end) =>
  writeString(out, hstoreJson(textOf(source, start, end)));
