// Hashing of columns: what travels in a column's place is the lower-case hex of SHA-256(salt + text), at the copy computed by
// the source's own server, in the stream by us. Null stays null.

import { createHash, type Hash } from "node:crypto";
import { escapeIdentifier } from "pg";
import { hashInto, type StoredValue } from "../../../change/packed-hex.ts";
import type { Column } from "../../../change/relation.ts";

const textOid = 25;

/** The setting that holds the salt in a session that copies, so that it is in no statement's text. */
export const saltSetting = "millrace.salt";

/**
 * A column that holds text which the source has made. It has no binary layout, because it is made of the text forms of values:
 * only a stream in text form has those.
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
 * The text form of a column as SQL: what the type's output function prints, and so the same as the stream has. A cast to text
 * is not: it says `true` for `t`, and cuts the blanks off a `char(n)`.
 */
export function outputTextSql(column: string): string {
  return `format('%s', ${escapeIdentifier(column)})`;
}

/** Whether the value is null; IS NULL also says so of a composite whose fields are. */
export function isNullSql(column: string): string {
  return `num_nulls(${escapeIdentifier(column)}) = 1`;
}

/** SQL of SHA-256 over a text expression, as lower-case hex. */
export function sha256Sql(text: string): string {
  return `encode(sha256(convert_to(${text}, 'UTF8')), 'hex')`;
}

/** SQL of a hashed column. `saltSetting` must be set in the session. */
export function hashedColumnSql(column: string): string {
  const salted = `current_setting('${saltSetting}') || ${outputTextSql(column)}`;
  return `case when not ${isNullSql(column)} then ${sha256Sql(salted)} end`;
}
