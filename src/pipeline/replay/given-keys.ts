// The keys of a replay as texts that Postgres can read. Clients give them as JSON, as deliveries show them. Pure.

import type { RowKey } from "../../change/copy-part.ts";
import { type Column, keyNames, qualifiedName, type Relation, withoutDomain } from "../../change/relation.ts";
import type { GivenKey, KeyValue } from "../../connector/replay.ts";
import { MillraceError } from "../../errors/millrace-error.ts";

const oid = { bool: 16, bytea: 17, float4: 700, float8: 701 } as const;
/** int8, int2, int4, oid, numeric. */
const exactNumbers: ReadonlySet<number> = new Set([20, 21, 23, 26, 1700]);
const floats: ReadonlySet<number> = new Set([oid.float4, oid.float8]);
/** A decimal of no more digits is the same after it was a JavaScript number. */
const exactDigits = 15;

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** In the order of the relation's key. Throws `invalid_request`, which names the first member that is wrong. */
export function textsOfKeys(relation: Relation, keys: readonly GivenKey[]): readonly RowKey[] {
  const columns = relation.key.map((at) => relation.columns[at]!);
  return keys.map((key, at) => {
    const known = new Set(columns.map(({ name }) => name));
    const unknown = Object.keys(key).find((name) => !known.has(name));
    if (unknown !== undefined)
      throw refused(relation, `keys[${at}].${unknown}`, "the key has no such column");
    return columns.map((column) => {
      const value = Object.hasOwn(key, column.name) ? key[column.name] : undefined;
      const field = `keys[${at}].${column.name}`;
      if (value === undefined) throw refused(relation, field, "required");
      const text = textOf(withoutDomain(column), value);
      if (typeof text === "string") return text;
      throw refused(relation, field, text.reason);
    });
  });
}

function textOf({ typeOid, typeName }: Column, value: KeyValue): string | { readonly reason: string } {
  if (typeof value === "string") return typeOid === oid.bytea ? byteaText(value) : value;
  if (typeof value === "boolean")
    return typeOid === oid.bool ? String(value) : { reason: `expected a text of the type ${typeName}` };
  if (floats.has(typeOid)) return String(value);
  if (!exactNumbers.has(typeOid)) return { reason: `expected a text of the type ${typeName}` };
  return isExact(value)
    ? String(value)
    : { reason: "a number with so many digits is not read exactly: give it as a text" };
}

function isExact(value: number): boolean {
  if (Number.isInteger(value)) return Number.isSafeInteger(value);
  return value.toExponential().replace(/e.*/, "").replace(/\D/g, "").length <= exactDigits;
}

/** Deliveries have base64, or hexadecimal digits behind `\x`, as Postgres prints them. */
function byteaText(value: string): string | { readonly reason: string } {
  if (value.startsWith("\\x")) return value;
  return base64.test(value)
    ? `\\x${Buffer.from(value, "base64").toString("hex")}`
    : { reason: "expected base64, or hexadecimal digits behind \\x" };
}

function refused(relation: Relation, field: string, reason: string): MillraceError {
  const names = keyNames(relation).join(", ");
  return new MillraceError(
    "invalid_request",
    `${field}: ${reason}. The key of ${qualifiedName(relation)} is (${names}).`,
  );
}
