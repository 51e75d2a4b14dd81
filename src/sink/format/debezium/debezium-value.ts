// Writers of single values in the forms of Debezium's Postgres connector, where they differ from the native
// ones. Numbers stay exact: a numeric goes through a bigint at most.
// https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-data-types

import type { ByteWriter } from "../values/byte-writer.ts";
import { writeString, writeTimestamp } from "../values/json-value.ts";
import { ShortDecimal } from "../values/short-decimal.ts";
import type { ValueWriter } from "../values/value-writer.ts";
import {
  formatTime,
  parseDate,
  parseIntervalUs,
  parseTime,
  parseTimestampUs,
  parseZone,
  plainTimestampUs,
  textOf,
  withIsoYear,
} from "./calendar.ts";

const encoder = new TextEncoder();

function writeText(out: ByteWriter, text: string): void {
  const bytes = encoder.encode(text);
  writeString(out, bytes, 0, bytes.length);
}

function writeRaw(out: ByteWriter, text: string): void {
  out.all(encoder.encode(text));
}

/** A whole number below 2^53 with `suffix` behind it, which multiplies it. */
function writeWhole(out: ByteWriter, value: number, suffix: Uint8Array): void {
  if (value < 0) out.byte(45);
  out.digits(Math.abs(value));
  if (value !== 0) out.all(suffix);
}

// --- infinity ----------------------------------------------------------------------------------

/** What the Postgres driver that Debezium uses gives for infinite timestamps, in the unit of the field. */
const positiveInfinity = 9_223_372_036_825_200_000n;
const negativeInfinity = -9_223_372_036_832_400_000n;

export const infinite = (text: string): bigint =>
  text.startsWith("-") ? negativeInfinity : positiveInfinity;

// --- date, time, timestamp ---------------------------------------------------------------------

/** Days since 1970-01-01; an infinite date is the end of int32. */
export const writeEpochDays: ValueWriter = (out, source, start, end) => {
  const text = textOf(source, start, end);
  const days = parseDate(text);
  writeRaw(out, String(days ?? (text.startsWith("-") ? -2_147_483_648 : 2_147_483_647)));
};

/** A number of a time's microseconds, in units of `unitUs`, with `suffix` behind it. */
export function timeWriter(unitUs: number, suffix = ""): ValueWriter {
  return (out, source, start, end) => {
    const us = parseTime(textOf(source, start, end)) ?? 0;
    const value = Math.floor(us / unitUs);
    writeRaw(out, value === 0 ? "0" : `${value}${suffix}`);
  };
}

/**
 * A number of the microseconds since 1970-01-01 of a timestamp, in units of `unitUs`, with `suffix` behind
 * it.
 */
export function timestampWriter(unitUs: bigint, suffix = ""): ValueWriter {
  const suffixBytes = encoder.encode(suffix);
  const unit = Number(unitUs);
  return (out, source, start, end) => {
    const plain = plainTimestampUs(source, start, end);
    if (plain !== null) return writeWhole(out, Math.floor(plain / unit), suffixBytes);
    const text = textOf(source, start, end);
    const us = parseTimestampUs(text);
    if (us === null) return writeRaw(out, String(infinite(text)));
    const floored = us / unitUs - (us % unitUs < 0n ? 1n : 0n);
    writeRaw(out, floored === 0n ? "0" : `${floored}${suffix}`);
  };
}

/**
 * A date, time or timestamp without zone in ISO form, as of UTC: `2017-09-15Z`, `20:45:30Z`,
 * `2019-07-09T02:28:57Z`.
 */
export const writeIsoUtc: ValueWriter = (out, source, start, end) => {
  const text = textOf(source, start, end);
  writeText(out, text.endsWith("infinity") ? text : `${withIsoYear(text).replace(" ", "T")}Z`);
};

/** A timestamp with time zone, which is UTC: `2018-06-20T13:13:16.945104Z`. */
export const writeZonedTimestamp: ValueWriter = (out, source, start, end) => {
  // A year of four digits, and no "BC" behind: as in the native form.
  if (source[start + 4] === 45 && source[end - 1] !== 67) return writeTimestamp(out, source, start, end);
  const text = textOf(source, start, end);
  writeText(out, withIsoYear(text).replace(" ", "T").replace(/\+00$/, "Z"));
};

/** A time with time zone, moved to UTC: `11:51:02Z`. */
export const writeZonedTime: ValueWriter = (out, source, start, end) => {
  const text = textOf(source, start, end);
  const day = 86_400_000_000;
  const us = (parseTime(text) ?? 0) - parseZone(text) * 1_000_000;
  writeText(out, `${formatTime(((us % day) + day) % day)}Z`);
};

/** An interval as microseconds. */
export const writeMicroDuration: ValueWriter = (out, source, start, end) => {
  const text = textOf(source, start, end);
  writeRaw(out, String(parseIntervalUs(text) ?? infinite(text)));
};

// --- numeric -----------------------------------------------------------------------------------

/**
 * The bytes of a signed integer, big-endian two's complement, as few as hold it: Java's
 * BigInteger.toByteArray.
 */
export function twosComplement(value: bigint): Uint8Array {
  const magnitude = value < 0n ? -value - 1n : value;
  const hex = magnitude.toString(16);
  // A digit in front of the first, where that has the sign's bit.
  const digits = Number.parseInt(hex[0]!, 16) > 7 || hex.length % 2 === 1 ? hex.length + 1 : hex.length;
  const length = Math.ceil(digits / 2);
  const bits = BigInt.asUintN(length * 8, value)
    .toString(16)
    .padStart(length * 2, "0");
  return Uint8Array.fromHex(bits);
}

interface Decimal {
  readonly unscaled: bigint;
  readonly scale: number;
}

/**
 * `-12.340` is -12340 and 3; null for NaN and ±Infinity. A text of money has its sign and separators
 * removed.
 */
export function parseDecimal(text: string): Decimal | null {
  const match = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text);
  if (!match) return null;
  const fraction = match[3] ?? "";
  return { unscaled: BigInt(`${match[1]}${match[2]}${fraction}`), scale: fraction.length };
}

const short = new ShortDecimal();
const scaleBytes = encoder.encode('{"scale":');
const valueBytes = encoder.encode(',"value":');
const closeBrace = "}".charCodeAt(0);

const base64 = (bytes: Uint8Array): string => bytes.toBase64();

/**
 * A numeric of fixed scale: base64 of its unscaled value. NaN and infinities, which have none, are their
 * words.
 */
export function decimalWriter(scale: number): ValueWriter {
  return (out, source, start, end) => {
    if (short.read(source, start, end, scale)) return short.write(out);
    const text = textOf(source, start, end);
    const decimal = parseDecimal(text);
    if (!decimal) return writeText(out, text);
    const unscaled = decimal.unscaled * 10n ** BigInt(Math.max(0, scale - decimal.scale));
    writeText(out, base64(twosComplement(unscaled)));
  };
}

/** A numeric without a fixed scale: `{"scale":2,"value":"…"}`. NaN and infinities are their words. */
export const writeVariableScaleDecimal: ValueWriter = (out, source, start, end) => {
  if (short.read(source, start, end)) {
    out.all(scaleBytes);
    out.digits(short.scale);
    out.all(valueBytes);
    short.write(out);
    out.byte(closeBrace);
    return;
  }
  const text = textOf(source, start, end);
  const decimal = parseDecimal(text);
  if (!decimal) return writeText(out, text);
  writeRaw(out, `{"scale":${decimal.scale},"value":"${base64(twosComplement(decimal.unscaled))}"}`);
};

/** A numeric as a JSON number with all its digits; NaN and infinities as strings. */
export const writeNumberOrWord: ValueWriter = (out, source, start, end) => {
  const last = source[end - 1]!;
  if (last >= 48 && last <= 57) out.raw(source, start, end);
  else writeString(out, source, start, end);
};

/** Money, `$1,234.50` or `-$1,234.50`, handed to a writer of numerics as `-1234.50`. */
export function moneyWriter(numeric: ValueWriter): ValueWriter {
  return (out, source, start, end) => {
    const bytes = encoder.encode(plainMoney(textOf(source, start, end)));
    numeric(out, bytes, 0, bytes.length);
  };
}

/** `-1234.50` of `-$1,234.50`. */
export function plainMoney(text: string): string {
  const sign = text.startsWith("-") || text.startsWith("(") ? "-" : "";
  return sign + text.replace(/[^\d.]/g, "");
}

// --- bytea, bits -------------------------------------------------------------------------------

/** `\x…` in base64 of the URL-safe alphabet. */
export const writeBase64UrlSafe: ValueWriter = (out, source, start, end) => {
  const bytes = Buffer.from(textOf(source, start + 2, end), "hex");
  // With padding, as Java's encoder that Debezium uses.
  writeText(out, bytes.toString("base64").replaceAll("+", "-").replaceAll("/", "_"));
};

/** `\x…` as its hexadecimal digits. */
export const writeHex: ValueWriter = (out, source, start, end) => writeString(out, source, start + 2, end);

/** `bit(1)`. */
export const writeBit: ValueWriter = (out, source, start) =>
  writeRaw(out, source[start] === 49 ? "true" : "false");

/** A string of bits as base64 of its bytes, little-endian: the last bit is the lowest of the first byte. */
export const writeBits: ValueWriter = (out, source, start, end) => {
  const bytes = new Uint8Array(Math.ceil((end - start) / 8));
  for (let i = 0; i < end - start; i++) {
    if (source[end - 1 - i] === 49) bytes[i >> 3] = bytes[i >> 3]! | (1 << (i & 7));
  }
  writeText(out, base64(bytes));
};

// --- point, hstore -----------------------------------------------------------------------------

/**
 * `(1.5,-2)` as `{"x":1.5,"y":-2,"wkb":"…","srid":null}`. A coordinate that JSON has no number for is a
 * string.
 */
export const writePoint: ValueWriter = (out, source, start, end) => {
  const [x = "0", y = "0"] = textOf(source, start + 1, end - 1).split(",");
  const wkb = new DataView(new ArrayBuffer(21));
  wkb.setUint8(0, 1);
  wkb.setUint32(1, 1, true);
  wkb.setFloat64(5, Number(x), true);
  wkb.setFloat64(13, Number(y), true);
  const number = (text: string) => (/\d$/.test(text) ? text : JSON.stringify(text));
  const binary = base64(new Uint8Array(wkb.buffer));
  writeRaw(out, `{"x":${number(x)},"y":${number(y)},"wkb":"${binary}","srid":null}`);
};

/** hstore as the text of a JSON object: `"{\"a\":\"1\",\"b\":null}"`. */
export const writeHstore: ValueWriter = (out, source, start, end) =>
  writeText(out, hstoreJson(textOf(source, start, end)));

/** `{"a":"1","b":null}` of `"a"=>"1", "b"=>NULL`. */
export function hstoreJson(text: string): string {
  const unescaped = (quoted: string) => quoted.replace(/\\(.)/gs, "$1");
  const members: string[] = [];
  for (const [, key, value] of text.matchAll(/"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)/gs)) {
    const written = value === undefined ? "null" : JSON.stringify(unescaped(value));
    members.push(`${JSON.stringify(unescaped(key!))}:${written}`);
  }
  return `{${members.join(",")}}`;
}
