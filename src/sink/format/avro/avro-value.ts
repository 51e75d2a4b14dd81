// Writes one value of Postgres' text form in Avro's binary encoding, bytes to bytes: what both formats have in common, and which writer a
// column of the native format gets. Values mean what they mean in the JSON form of the format; NaN and ±Infinity of floats are floats here,
// not words.

import { isUtf8 } from "node:buffer";
import { type Column, withoutDomain } from "../../../change/relation.ts";
import type { ByteWriter } from "../values/byte-writer.ts";
import { nibble, writeTimestamp, writeTimeWithZone } from "../values/json-value.ts";
import { largeRaw, largeValueBytes } from "../values/large-value.ts";
import { arrayDelimiter, arrayElementOid, TypeOid } from "../values/type-oid.ts";
import type { ValueWriter } from "../values/value-writer.ts";
import { avroArrayWriter } from "./avro-array.ts";
import { writeDouble, writeFloat } from "./avro-float.ts";
import { writeIntegerText, writeLong } from "./avro-long.ts";
import type { AvroWriter } from "./avro-writer.ts";

/** Longest text whose length takes one byte. */
const shortTextBytes = 63;

/** A string. Bytes that are not UTF-8 (a SQL_ASCII database may hold them) become U+FFFD. */
export const writeText: AvroWriter = (out, source, start, end) => {
  const length = end - start;
  if (length > shortTextBytes) return writeLongText(out, source, start, end);
  out.reserve(length + 1);
  const { bytes } = out;
  const begin = out.length;
  let at = begin;
  let high = 0;
  bytes[at++] = length << 1;
  for (let i = start; i < end; i++) {
    const byte = source[i]!;
    bytes[at++] = byte;
    high |= byte;
  }
  out.length = at;
  if (high >= 0x80 && !isUtf8(source.subarray(start, end))) {
    out.length = begin;
    writeMended(out, source, start, end);
  }
  return true;
};

function writeLongText(out: ByteWriter, source: Uint8Array, start: number, end: number): boolean {
  if (isUtf8(source.subarray(start, end))) writeLengthAndBytes(out, source, start, end);
  else writeMended(out, source, start, end);
  return true;
}

function writeMended(out: ByteWriter, source: Uint8Array, start: number, end: number): void {
  const mended = new TextEncoder().encode(new TextDecoder().decode(source.subarray(start, end)));
  writeLengthAndBytes(out, mended, 0, mended.length);
}

/** Bytes, or a string that is UTF-8, with its length before it. Large ones are not copied: they lie in the source as they are sent. */
export function writeLengthAndBytes(out: ByteWriter, source: Uint8Array, start: number, end: number): void {
  writeLong(out, end - start);
  if (end - start > largeValueBytes) out.large(largeRaw(source, start, end));
  else out.raw(source, start, end);
}

/** A string that is not a value's own bytes. */
export function writeString(out: ByteWriter, text: string): true {
  const bytes = new TextEncoder().encode(text);
  writeLengthAndBytes(out, bytes, 0, bytes.length);
  return true;
}

/**
 * What a writer of JSON strings writes, without its quotes: for short texts that have no escapes. The length then takes the place of the
 * first quote.
 */
export function unquoted(write: ValueWriter): AvroWriter {
  return (out, source, start, end) => {
    const at = out.length;
    write(out, source, start, end);
    const length = out.length - at - 2;
    if (length <= shortTextBytes) {
      out.bytes[at] = length << 1;
      out.length--;
      return true;
    }
    const text = out.bytes.slice(at + 1, out.length - 1);
    out.length = at;
    return writeText(out, text, 0, text.length);
  };
}

/** `t` or `f`; a bit `1` or `0`. */
export const writeBoolean: AvroWriter = (out, source, start) => {
  const byte = source[start];
  out.byte(byte === 116 || byte === 49 ? 1 : 0);
  return true;
};

/** `\x…` as bytes. */
export const writeBytes: AvroWriter = (out, source, start, end) => {
  const count = (end - start - 2) >> 1;
  writeLong(out, count);
  out.reserve(count);
  const { bytes } = out;
  let at = out.length;
  for (let i = start + 2; i < end; i += 2) bytes[at++] = (nibble(source[i]!) << 4) | nibble(source[i + 1]!);
  out.length = at;
  return true;
};

const writeIsoTimestamp = unquoted(writeTimestamp);
const writeIsoTime = unquoted(writeTimeWithZone);

/** The native form's writer for a column. */
export function nativeAvroWriter(of: Column): AvroWriter {
  const column = withoutDomain(of);
  if (!column.typeName.endsWith("[]")) return scalarWriter(column.typeOid);
  return avroArrayWriter(scalarWriter(arrayElementOid(column.typeOid)), arrayDelimiter(column));
}

function scalarWriter(typeOid: number): AvroWriter {
  switch (typeOid) {
    case TypeOid.int2:
    case TypeOid.int4:
    case TypeOid.int8:
    case TypeOid.oid:
      return writeIntegerText;
    case TypeOid.float4:
      return writeFloat;
    case TypeOid.float8:
      return writeDouble;
    case TypeOid.bool:
      return writeBoolean;
    case TypeOid.timestamp:
    case TypeOid.timestamptz:
      return writeIsoTimestamp;
    case TypeOid.timetz:
      return writeIsoTime;
    case TypeOid.bytea:
      return writeBytes;
    default:
      return writeText;
  }
}
