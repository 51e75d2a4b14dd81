// Reads a row's key as people write it, which is as the receiver sees it, and makes the texts of it that the source sends. Pure.
// https://www.postgresql.org/docs/current/datatype.html

import type { KeyColumn } from "../../../connector/receipts.ts";
import type { Violation } from "../../../errors/millrace-error.ts";
import { pointerMember } from "../../../errors/pointer-member.ts";
import { TypeOid } from "../../format/values/type-oid.ts";

export type KeyTexts =
  | { readonly kind: "texts"; readonly texts: readonly string[] }
  | { readonly kind: "unfit"; readonly violations: readonly Violation[] };

/** Violations are at `/key`, and at its members. */
export function keyTexts(columns: readonly KeyColumn[], key: Readonly<Record<string, unknown>>): KeyTexts {
  const names = columns.map(({ name }) => name);
  const violations: Violation[] = [];
  for (const name of Object.keys(key)) {
    if (!names.includes(name))
      violations.push({ path: pathOf(name), message: `no column of the key, which is ${names.join(", ")}` });
  }
  const texts = columns.map((column) => {
    const text = Object.hasOwn(key, column.name) ? textOf(column, key[column.name]) : "";
    if (!Object.hasOwn(key, column.name)) {
      violations.push({ path: pathOf(column.name), message: `required: the key is ${names.join(", ")}` });
    } else if (text === null) violations.push({ path: pathOf(column.name), message: expectation(column) });
    return text ?? "";
  });
  return violations.length > 0 ? { kind: "unfit", violations } : { kind: "texts", texts };
}

function pathOf(name: string): string {
  return `/key/${pointerMember(name)}`;
}

const integers: ReadonlySet<number> = new Set([TypeOid.int2, TypeOid.int4, TypeOid.int8, TypeOid.oid]);
const numbers: ReadonlySet<number> = new Set([TypeOid.float4, TypeOid.float8, TypeOid.numeric]);

/** Null: it is none. */
function textOf({ typeOid }: KeyColumn, value: unknown): string | null {
  if (typeOid === TypeOid.bool) return booleanText(value);
  if (integers.has(typeOid)) return integerText(value);
  if (typeof value === "number") return numbers.has(typeOid) && isExact(value) ? String(value) : null;
  if (typeof value !== "string") return null;
  switch (typeOid) {
    case TypeOid.uuid:
      return uuidText(value);
    case TypeOid.bytea:
      return byteaText(value);
    case TypeOid.timestamp:
      return isoDay.test(value) ? value.replace("T", " ") : value;
    case TypeOid.timestamptz:
      return timestamptzText(value);
    case TypeOid.timetz:
      return value.replace(/Z$/, "+00").replace(/([+-]\d\d):00$/, "$1");
    default:
      return value;
  }
}

/** Where a number has more digits than JavaScript keeps, it is another one by now. */
function isExact(value: number): boolean {
  return Number.isInteger(value) ? Number.isSafeInteger(value) : true;
}

function booleanText(value: unknown): string | null {
  const word = typeof value === "boolean" ? String(value) : value;
  if (word === "true" || word === "t") return "t";
  return word === "false" || word === "f" ? "f" : null;
}

function integerText(value: unknown): string | null {
  if (typeof value === "number") return Number.isSafeInteger(value) ? String(value) : null;
  return typeof value === "string" && /^-?\d{1,20}$/.test(value) ? String(BigInt(value)) : null;
}

function uuidText(value: string): string | null {
  const hex = value.toLowerCase().replace(/[{}-]/g, "");
  if (!/^[0-9a-f]{32}$/.test(hex)) return null;
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** Base64, or as Postgres writes it. */
function byteaText(value: string): string | null {
  if (/^\\x(?:[0-9a-f]{2})*$/i.test(value)) return value.toLowerCase();
  const isBase64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(value);
  return isBase64 ? `\\x${Buffer.from(value, "base64").toString("hex")}` : null;
}

const isoDay = /^\d{4,}-\d\d-\d\dT/;
const moment = /^(\d{4,6}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d{1,6})?(Z|[+-]\d\d(?::?\d\d)?)$/;

/** The source sends times in UTC. What is no time of day in this form is taken as it is: `infinity`, or years BC. */
function timestamptzText(value: string): string {
  const [, day, time, fraction = "", zone = ""] = moment.exec(value) ?? [];
  if (day === undefined || time === undefined) return value;
  const zoneText =
    zone === "Z" ? "Z" : zone.length === 3 ? `${zone}:00` : zone.replace(/^(...)(\d\d)$/, "$1:$2");
  const atMs = Date.parse(`${day}T${time}${zoneText}`);
  if (Number.isNaN(atMs)) return value;
  const utc = new Date(atMs).toISOString().slice(0, -5).replace("T", " ");
  return `${utc}${fraction.replace(/\.?0+$/, "")}+00`;
}

function expectation({ typeOid, typeName }: KeyColumn): string {
  if (integers.has(typeOid))
    return `expected a whole number, as a text where it has more than 15 digits: the column is ${typeName}`;
  if (typeOid === TypeOid.bool) return "expected true or false";
  return `expected the value as the receiver sees it, or the text that Postgres prints: the column is ${typeName}`;
}
