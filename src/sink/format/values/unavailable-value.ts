// What stands for a TOASTed value that a change did not touch and that the source did not send.

import type { Column } from "../../../change/relation.ts";
import { TypeOid } from "./type-oid.ts";

/** Debezium's text, so that consumers need to know one only. */
export const unavailableText = "__debezium_unavailable_value";
/** The same as JSON. */
export const unavailableValue: Uint8Array = new TextEncoder().encode(JSON.stringify(unavailableText));

const numberLike: ReadonlySet<number> = new Set([
  TypeOid.bool,
  TypeOid.int2,
  TypeOid.int4,
  TypeOid.int8,
  TypeOid.oid,
  TypeOid.float4,
  TypeOid.float8,
  TypeOid.json,
  TypeOid.jsonb,
  TypeOid.bytea,
]);

/**
 * Whether the column is written as a free text, which can hold the placeholder without misleading a reader.
 */
export function isStringType(column: Column): boolean {
  return (
    !column.typeName.endsWith("[]") && !numberLike.has(column.typeOid) && column.typeOid !== TypeOid.numeric
  );
}
