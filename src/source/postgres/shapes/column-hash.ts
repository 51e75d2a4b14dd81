// Hashes columns: the lower-case hex of SHA-256(salt + text) is sent instead of the value. The source's server computes
// it for copies, we for the stream. Null stays null.

import { createHash, type Hash } from "node:crypto";
import { escapeIdentifier } from "pg";
import { hashInto, type StoredValue } from "../../../change/packed-hex.ts";
import type { Column } from "../../../change/relation.ts";

const textOid = 25;

/** The session setting that holds the salt during a copy, so that it is in no statement's text. */
export const saltSetting = "millrace.salt";

/**
 * A text column that the source computes. It has no binary layout: it is made from the text of values, which only a
 * text stream has.
 */
export function derivedColumn(name: string, number: number, addedValue: string | null): Column {
  return { name, number, typeOid: textOid, typmod: -1, typeName: "text", binaryLayout: null, addedValue };
}

/** Hex of SHA-256(salt + text), as ASCII bytes. The text is UTF-8. */
export function hashText(salt: string, value: StoredValue): Uint8Array {
  const hash = createHash("sha256").update(salt, "utf8");
  hashInto(hash, value);
  return hexDigest(hash);
}

/** Lower-case hex as ASCII bytes. */
export function hexDigest(hash: Hash): Uint8Array {
  return Buffer.from(hash.digest("hex"), "latin1");
}

/**
 * SQL for a column's text: the output of its type's output function, as in the stream. A cast to text differs: it gives
 * `true` for `t`, and strips the blanks of a `char(n)`.
 */
export function outputTextSql(column: string): string {
  return `format('%s', ${escapeIdentifier(column)})`;
}

/** Whether the value is null. IS NULL is also true of a composite whose fields are all null. */
export function isNullSql(column: string): string {
  return `num_nulls(${escapeIdentifier(column)}) = 1`;
}

/** SQL for SHA-256 of a text expression, as lower-case hex. */
export function sha256Sql(text: string): string {
  return `encode(sha256(convert_to(${text}, 'UTF8')), 'hex')`;
}

/** SQL for a hashed column. The session must have set `saltSetting`. */
export function hashedColumnSql(column: string): string {
  const salted = `current_setting('${saltSetting}') || ${outputTextSql(column)}`;
  return `case when not ${isNullSql(column)} then ${sha256Sql(salted)} end`;
}
