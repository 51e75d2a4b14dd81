// What a value is to be in Avro, worked out from the JSON form of the same format.

import type { ConnectSchema } from "../../src/sink/format/connect-schema.ts";
import { type ExactNumber, parseExactly } from "./webhook-values.ts";

const isWord = (value: unknown): value is string => /^(NaN|-?Infinity)$/.test(String(value));
const isNumber = (value: unknown): value is ExactNumber =>
  typeof value === "object" && value !== null && "digits" in value;

const longest = 2n ** 63n - 1n;

/** Whether `decoded` says what `sent` says, which the JSON form holds, its numbers exact. */
export function isSameValue(schema: ConnectSchema, sent: unknown, decoded: unknown): boolean {
  // A document may be a JSON null; the column is not.
  if (schema.type === "json" && decoded !== null)
    return Bun.deepEquals(parseExactly(String(decoded)), sent ?? null);
  if (sent === null || sent === undefined) return decoded === null;
  switch (schema.type) {
    case "int16":
    case "int32":
    case "int64":
      return isSameInteger(schema, sent, decoded);
    case "float":
    case "double": {
      const number = isNumber(sent) ? Number(sent.digits) : Number(sent);
      return Object.is(decoded, schema.type === "float" ? Math.fround(number) : number);
    }
    case "bytes": {
      if (isWord(sent)) return decoded === null;
      return Bun.deepEquals(Buffer.from(String(sent), "base64"), Buffer.from(decoded as Uint8Array));
    }
    case "struct":
      return isSameStruct(schema, sent, decoded);
    case "array":
      return isSameArray(schema, sent as readonly unknown[], decoded);
    default:
      return decoded === sent;
  }
}

function isSameInteger({ type }: ConnectSchema, sent: unknown, decoded: unknown): boolean {
  if (!isNumber(sent)) return false;
  const whole = BigInt(sent.digits);
  if (whole > longest || whole < -longest - 1n) return decoded === null;
  return typeof decoded === (type === "int64" ? "bigint" : "number") && String(decoded) === String(whole);
}

function isSameStruct(schema: ConnectSchema, sent: unknown, decoded: unknown): boolean {
  if (isWord(sent)) return decoded === null;
  const [from, to] = [sent, decoded] as Readonly<Record<string, unknown>>[];
  return schema.fields!.every((field) => isSameValue(field, from![field.field], to![field.field]));
}

function isSameArray({ items }: ConnectSchema, sent: readonly unknown[], decoded: unknown): boolean {
  const isNested = items!.type !== "json" && sent.some((each) => Array.isArray(each));
  if (decoded === null) return isNested || sent.some((each) => Array.isArray(each));
  if (isNested || !Array.isArray(decoded) || decoded.length !== sent.length) return false;
  return sent.every((each, i) => isSameValue(items!, each, decoded[i]));
}
