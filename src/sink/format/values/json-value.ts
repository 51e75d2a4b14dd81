// Writes one value of Postgres' text form as JSON, bytes to bytes. No value becomes a JavaScript number,
// Date or parsed object on the way. Which writer a column gets is `valueWriter`'s decision; the rest
// writes.
// https://www.postgresql.org/docs/current/datatype.html

import { isUtf8 } from "node:buffer";
import type { Column } from "../../../change/relation.ts";
import { arrayWriter } from "./array-text.ts";
import { ByteWriter } from "./byte-writer.ts";
import { largeBase64, largeRaw, largeString, largeValueBytes } from "./large-value.ts";
import { arrayDelimiter, arrayElementOid, TypeOid } from "./type-oid.ts";
import type { ValueWriter } from "./value-writer.ts";

const quote = 34;
const backslash = 92;
const hexDigits = new TextEncoder().encode("0123456789abcdef");
const base64Digits = new TextEncoder().encode(
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
);

/** A JSON string. Bytes that are not UTF-8 (a SQL_ASCII database may hold them) become U+FFFD. */
export const writeString: ValueWriter = (out, source, start, end) => {
  if (end - start > largeValueBytes) return writeLargeString(out, source, start, end);
  out.reserve(end - start + 2);
  const begin = out.length;
  let bytes = out.bytes;
  let at = begin;
  let high = 0;
  bytes[at++] = quote;
  for (let i = start; i < end; i++) {
    const byte = source[i]!;
    if (byte >= 0x20 && byte !== quote && byte !== backslash) {
      bytes[at++] = byte;
      high |= byte;
      continue;
    }
    out.length = at;
    writeEscape(out, byte);
    out.reserve(end - i + 1);
    bytes = out.bytes;
    at = out.length;
  }
  bytes[at++] = quote;
  out.length = at;
  if (high >= 0x80 && !isUtf8(source.subarray(start, end))) {
    out.length = begin;
    const mended = new TextEncoder().encode(new TextDecoder().decode(source.subarray(start, end)));
    writeString(out, mended, 0, mended.length);
  }
};

function writeLargeString(out: ByteWriter, source: Uint8Array, start: number, end: number): void {
  const value = source.subarray(start, end);
  if (isUtf8(value)) {
    out.large(largeString(source, start, end, escapeOf));
    return;
  }
  const mended = new TextEncoder().encode(new TextDecoder().decode(value));
  out.large(largeString(mended, 0, mended.length, escapeOf));
}

function escapeOf(byte: number): Uint8Array | null {
  if (byte >= 0x20 && byte !== quote && byte !== backslash) return null;
  const out = new ByteWriter(8);
  writeEscape(out, byte);
  return out.slice();
}

function writeEscape(out: ByteWriter, byte: number): void {
  out.reserve(6);
  const bytes = out.bytes;
  let at = out.length;
  bytes[at++] = backslash;
  const short = shortEscape(byte);
  if (short !== 0) {
    bytes[at++] = short;
  } else {
    bytes[at++] = 117; // u00xx
    bytes[at++] = 48;
    bytes[at++] = 48;
    bytes[at++] = hexDigits[byte >> 4]!;
    bytes[at++] = hexDigits[byte & 15]!;
  }
  out.length = at;
}

function shortEscape(byte: number): number {
  switch (byte) {
    case quote:
    case backslash:
      return byte;
    case 8:
      return 98;
    case 9:
      return 116;
    case 10:
      return 110;
    case 12:
      return 102;
    case 13:
      return 114;
    default:
      return 0;
  }
}

/** An integer's text is a JSON number already, digit for digit. */
export const writeInteger: ValueWriter = (out, source, start, end) => out.raw(source, start, end);

/** A float's text is a JSON number, but for `NaN`, `Infinity` and `-Infinity`, which become strings. */
export const writeFloat: ValueWriter = (out, source, start, end) => {
  const first = source[start]!;
  const word = first === 78 || first === 73 || (first === 45 && source[start + 1] === 73);
  if (word) writeString(out, source, start, end);
  else out.raw(source, start, end);
};

const trueBytes = new TextEncoder().encode("true");
const falseBytes = new TextEncoder().encode("false");

/** `t` or `f`. */
export const writeBoolean: ValueWriter = (out, source, start) =>
  out.all(source[start] === 116 ? trueBytes : falseBytes);

/** `json` and `jsonb`, as they are. */
const writeJson: ValueWriter = (out, source, start, end) => {
  if (isUtf8(source.subarray(start, end))) {
    if (end - start > largeValueBytes) return out.large(largeRaw(source, start, end));
    return out.raw(source, start, end);
  }
  out.all(new TextEncoder().encode(new TextDecoder().decode(source.subarray(start, end))));
};

const isSpecialTime = (source: Uint8Array, end: number): boolean => {
  const last = source[end - 1]!;
  return last === 67 || last === 121; // "… BC", "infinity", "-infinity"
};

/**
 * `2024-01-02 03:04:05.678901` becomes `2024-01-02T03:04:05.678901`; `infinity` and BC stay as Postgres
 * prints them.
 */
export const writeTimestamp: ValueWriter = (out, source, start, end) => {
  if (isSpecialTime(source, end)) return writeString(out, source, start, end);
  out.reserve(end - start + 8);
  const bytes = out.bytes;
  let at = out.length;
  bytes[at++] = quote;
  for (let i = start; i < end; i++) bytes[at++] = source[i] === 32 ? 84 : source[i]!;
  at = isoZone(bytes, out.length + 1, at);
  bytes[at++] = quote;
  out.length = at;
};

/** A `time with time zone`: as Postgres prints it, its zone in ISO form. */
export const writeTimeWithZone: ValueWriter = writeTimestamp;

/** Rewrites a zone `+00` at the end of `bytes[from, end)` as `Z`, `+02` as `+02:00`. Returns the new end. */
function isoZone(bytes: Uint8Array, from: number, end: number): number {
  const sign = bytes[end - 3];
  // Behind the time's colons only: a date ends in `-DD` as well.
  if ((sign !== 43 && sign !== 45) || !hasColon(bytes, from, end - 3)) return end;
  if (bytes[end - 2] === 48 && bytes[end - 1] === 48) {
    bytes[end - 3] = 90;
    return end - 2;
  }
  bytes[end] = 58;
  bytes[end + 1] = 48;
  bytes[end + 2] = 48;
  return end + 3;
}

function hasColon(bytes: Uint8Array, from: number, end: number): boolean {
  for (let i = from; i < end; i++) if (bytes[i] === 58) return true;
  return false;
}

/** Of a hex digit. */
export const nibble = (byte: number): number => (byte < 58 ? byte - 48 : (byte | 32) - 87);

/** `\x…` as base64 (RFC 4648, section 4). */
export const writeBase64: ValueWriter = (out, source, start, end) => {
  const from = start + 2;
  if (end - from > largeValueBytes) return out.large(largeBase64(source, from, end, base64OfHex));
  const length = Math.ceil((end - from) / 6) * 4;
  out.reserve(length + 2);
  const at = out.length;
  out.bytes[at] = quote;
  base64OfHex(source, from, end, out.bytes.subarray(at + 1));
  out.bytes[at + 1 + length] = quote;
  out.length = at + length + 2;
};

/** Writes the bytes that the hex digits `source[from, end)` stand for as base64 at `out[0]`. */
function base64OfHex(source: Uint8Array, from: number, end: number, out: Uint8Array): void {
  const count = (end - from) >> 1;
  let at = 0;
  const octet = (i: number): number => {
    const p = from + i * 2;
    return i < count ? (nibble(source[p]!) << 4) | nibble(source[p + 1]!) : 0;
  };
  for (let i = 0; i < count; i += 3) {
    const group = (octet(i) << 16) | (octet(i + 1) << 8) | octet(i + 2);
    out[at++] = base64Digits[group >> 18]!;
    out[at++] = base64Digits[(group >> 12) & 63]!;
    out[at++] = i + 1 < count ? base64Digits[(group >> 6) & 63]! : 61;
    out[at++] = i + 2 < count ? base64Digits[group & 63]! : 61;
  }
}

/** The native form's writer for a column. Types that it has no rule for are Postgres' text. */
export function valueWriter(column: Column): ValueWriter {
  if (!column.typeName.endsWith("[]")) return scalarWriter(column.typeOid);
  return arrayWriter(scalarWriter(arrayElementOid(column.typeOid)), arrayDelimiter(column));
}

function scalarWriter(typeOid: number): ValueWriter {
  switch (typeOid) {
    case TypeOid.int2:
    case TypeOid.int4:
    case TypeOid.int8:
    case TypeOid.oid:
      return writeInteger;
    case TypeOid.float4:
    case TypeOid.float8:
      return writeFloat;
    case TypeOid.bool:
      return writeBoolean;
    case TypeOid.json:
    case TypeOid.jsonb:
      return writeJson;
    case TypeOid.timestamp:
    case TypeOid.timestamptz:
      return writeTimestamp;
    case TypeOid.timetz:
      return writeTimeWithZone;
    case TypeOid.bytea:
      return writeBase64;
    default:
      return writeString;
  }
}
