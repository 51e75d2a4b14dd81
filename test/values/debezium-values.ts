// What Debezium's form is to make of a value, worked out from Postgres' own text and not from the sink's code. The other way round where
// bytes stand for a value: what they say is compared with the text.

import type { ConnectSchema } from "../../src/sink/format/connect-schema.ts";
import { type ExactNumber, parseExactly } from "./webhook-values.ts";

const numberOf = (digits: string | number | bigint): ExactNumber => ({ digits: String(digits) });

/** Days since 1970-01-01, by the Julian day number (Fliegel and Van Flandern). */
function days(text: string): bigint {
  const [, y = "", m = "", d = ""] = /^(\d+)-(\d\d)-(\d\d)/.exec(text) ?? [];
  const [year, month, day] = [BigInt(text.endsWith("BC") ? 1 - Number(y) : Number(y)), BigInt(m), BigInt(d)];
  const a = (14n - month) / 12n;
  const shifted = year + 4800n - a;
  const inYear = (153n * (month + 12n * a - 3n) + 2n) / 5n + 365n * shifted;
  return day + inYear + shifted / 4n - shifted / 100n + shifted / 400n - 32_045n - 2_440_588n;
}

function timeUs(text: string): bigint {
  const [, h = "0", m = "0", s = "0", f = ""] = /(\d\d):(\d\d):(\d\d)(?:\.(\d+))?/.exec(text) ?? [];
  return (BigInt(h) * 3600n + BigInt(m) * 60n + BigInt(s)) * 1_000_000n + BigInt(f.padEnd(6, "0"));
}

const floored = (value: bigint, unit: bigint) => value / unit - (value % unit < 0n ? 1n : 0n);

function isoDate(text: string): string {
  const [whole, y = ""] = /^(\d+)/.exec(text) ?? [""];
  const year = text.endsWith(" BC") ? 1 - Number(y) : Number(y);
  const sign = year < 0 ? "-" : year > 9999 ? "+" : "";
  return `${sign}${String(Math.abs(year)).padStart(4, "0")}${text.slice(whole!.length).replace(/ BC$/, "")}`;
}

/** The driver's infinities. */
const infinities = { "-infinity": -9_223_372_036_832_400_000n, infinity: 9_223_372_036_825_200_000n };

function temporal(name: string, text: string): unknown {
  const isInfinite = /^-?infinity$/.test(text);
  const endless = numberOf(infinities[text as keyof typeof infinities] ?? 0n);
  const stampUs = () => days(text) * 86_400_000_000n + timeUs(text);
  switch (name) {
    case "io.debezium.time.Date":
    case "org.apache.kafka.connect.data.Date":
      return numberOf(isInfinite ? (text === "infinity" ? 2_147_483_647 : -2_147_483_648) : days(text));
    case "io.debezium.time.MicroTime":
      return numberOf(timeUs(text));
    case "io.debezium.time.NanoTime":
      return numberOf(timeUs(text) * 1000n);
    case "io.debezium.time.Time":
    case "org.apache.kafka.connect.data.Time":
      return numberOf(timeUs(text) / 1000n);
    case "io.debezium.time.MicroTimestamp":
      return isInfinite ? endless : numberOf(stampUs());
    case "io.debezium.time.NanoTimestamp":
      return isInfinite ? endless : numberOf(stampUs() * 1000n);
    case "io.debezium.time.Timestamp":
    case "org.apache.kafka.connect.data.Timestamp":
      return isInfinite ? endless : numberOf(floored(stampUs(), 1000n));
    case "io.debezium.time.ZonedTimestamp":
      return isInfinite ? text : isoDate(text).replace(" ", "T").replace(/\+00$/, "Z");
    case "io.debezium.time.IsoDate":
    case "io.debezium.time.IsoTimestamp":
      return isInfinite ? text : `${isoDate(text).replace(" ", "T")}Z`;
    case "io.debezium.time.IsoTime":
      return `${text}Z`;
    default:
      return undefined;
  }
}

function intervalUs(text: string): bigint {
  let us = 0n;
  for (const [, count = "0", unit = ""] of text.matchAll(/(-?\+?\d+) (year|mon|day)/g)) {
    const each = { year: 31_557_600_000_000n, mon: 2_629_800_000_000n, day: 86_400_000_000n }[unit] ?? 0n;
    us += BigInt(count.replace("+", "")) * each;
  }
  const [, sign = "", h = "0", rest = ""] = /([+-]?)(\d+)(:\d\d:\d\d\S*)/.exec(text) ?? [];
  const inDay = BigInt(h) * 3_600_000_000n + timeUs(`00${rest}`);
  return us + (sign === "-" ? -inDay : inDay);
}

/** Microseconds of a time of day at UTC, as `HH:MM:SS.ffffff` without zeros at its end. */
function zonedTime(text: string): string {
  const [, sign = "+", h = "0", m = "0", s = "0"] = /([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?$/.exec(text) ?? [];
  const offset = (BigInt(h) * 3600n + BigInt(m) * 60n + BigInt(s)) * 1_000_000n;
  const day = 86_400_000_000n;
  const us = (((timeUs(text) - (sign === "-" ? -offset : offset)) % day) + day) % day;
  const at = new Date(Number(us / 1000n)).toISOString().slice(11, 19);
  const fraction = String(us % 1_000_000n)
    .padStart(6, "0")
    .replace(/0+$/, "");
  return `${at}${fraction === "" ? "" : `.${fraction}`}Z`;
}

function unscaled(base64: string): bigint {
  const bytes = Buffer.from(base64, "base64");
  return BigInt.asIntN(bytes.length * 8, BigInt(`0x${bytes.toString("hex")}`));
}

function decimalText(value: bigint, scale: number): string {
  const digits = (value < 0n ? -value : value).toString().padStart(scale + 1, "0");
  const whole = digits.slice(0, digits.length - scale);
  return `${value < 0n ? "-" : ""}${whole}${scale > 0 ? `.${digits.slice(-scale)}` : ""}`;
}

/** Without what money has beside its digits. */
const plainDecimal = (text: string) => text.replace(/[$,]/g, "");

const isWord = (text: string) => /^(NaN|-?Infinity)$/.test(text);

/** Bits, the last of which is the lowest of the first byte. */
function bitsText(base64: string, length: number): string {
  const bytes = [...Buffer.from(base64, "base64")].reverse();
  const all = bytes.map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return length === 0 ? "" : all.slice(-length);
}

/** Whether `sent` is the value of `text` under its schema. `binary`: how bytea is written. */
export function isValue(schema: ConnectSchema, text: string, sent: unknown, binary: string): boolean {
  const same = (wanted: unknown) => Bun.deepEquals(sent, wanted);
  const { name, type } = schema;
  const inTime = name === undefined ? undefined : temporal(name, text);
  if (inTime !== undefined) return same(inTime);
  switch (name) {
    case "io.debezium.time.ZonedTime":
      return same(zonedTime(text));
    case "io.debezium.time.MicroDuration": {
      const endless = infinities[text as keyof typeof infinities];
      return same(numberOf(endless ?? intervalUs(text)));
    }
    case "org.apache.kafka.connect.data.Decimal": {
      if (isWord(text)) return same(text);
      return decimalText(unscaled(String(sent)), Number(schema.parameters?.scale)) === plainDecimal(text);
    }
    case "io.debezium.data.VariableScaleDecimal": {
      if (isWord(text)) return same(text);
      const { scale, value } = sent as { scale: ExactNumber; value: string };
      return decimalText(unscaled(value), Number(scale.digits)) === text;
    }
    case "io.debezium.data.Bits":
      return bitsText(String(sent), text.length) === text;
    case "io.debezium.data.geometry.Point": {
      const { x, y, wkb } = sent as { x: ExactNumber | string; y: ExactNumber | string; wkb: string };
      const said = [x, y].map((each) => (typeof each === "string" ? each : each.digits));
      const bytes = Buffer.from(wkb, "base64");
      const binaries = [bytes.readDoubleLE(5), bytes.readDoubleLE(13)];
      return `(${said})` === text && Bun.deepEquals(binaries, said.map(Number));
    }
    case "io.debezium.data.Json":
      return String(sent) === text || isHstore(String(sent), text);
  }
  switch (type) {
    case "boolean":
      return same(text === "t" || text === "1");
    case "int16":
    case "int32":
    case "int64":
      return same(numberOf(text));
    case "float":
    case "double":
      return same(isWord(text) ? text : numberOf(plainDecimal(text)));
    default:
      return same(text.startsWith("\\x") && binary !== "" ? bytea(text, binary) : plainMoney(text, sent));
  }
}

/** Money under `String` is its amount. */
function plainMoney(text: string, sent: unknown): string {
  return /^-?\$[\d,]+\.\d\d$/.test(text) && sent !== text ? plainDecimal(text) : text;
}

function bytea(text: string, mode: string): string {
  const bytes = Buffer.from(text.slice(2), "hex");
  if (mode === "Hex") return bytes.toString("hex");
  const base64 = bytes.toString("base64");
  return mode === "Base64UrlSafe" ? base64.replaceAll("+", "-").replaceAll("/", "_") : base64;
}

/** Each key and value of the JSON object stands in hstore's text, in its quotes, and nothing else does. */
function isHstore(json: string, text: string): boolean {
  const escaped = (value: string) => `"${value.replace(/["\\]/g, "\\$&")}"`;
  const members = Object.entries(parseExactly(json) as Record<string, string | null>);
  const pairs = members.map(([key, value]) => `${escaped(key)}=>${value === null ? "NULL" : escaped(value)}`);
  const length = pairs.join(", ").length;
  return pairs.every((pair) => text.includes(pair)) && length === text.length;
}
