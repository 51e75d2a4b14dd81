// The row hash that stands for the key of a table that has none: lower-case hex of SHA-256 over the columns that are not null,
// in their order, each as `<bytes of name>:<name>=<bytes of text>:<text>,` in UTF-8. A column that is added and null in a row
// leaves the row's hash as it was.

import { createHash } from "node:crypto";
import { escapeLiteral } from "pg";
import { hashInto, type StoredValue, textBytes } from "../../../change/packed-hex.ts";
import type { Relation } from "../../../change/relation.ts";
import { hexDigest, isNullSql, outputTextSql, sha256Sql } from "./column-hash.ts";

const encoder = new TextEncoder();
const comma = encoder.encode(",");

export class RowHasher {
  readonly #prefixes: readonly Uint8Array[];

  constructor(columns: readonly { readonly name: string }[]) {
    this.#prefixes = columns.map(({ name }) => encoder.encode(prefix(name)));
  }

  /** Over the columns' text forms in UTF-8; null for null. */
  hash(values: readonly (StoredValue | null)[]): Uint8Array {
    const hash = createHash("sha256");
    values.forEach((value, i) => {
      if (value === null) return;
      hash.update(this.#prefixes[i]!).update(`${textBytes(value)}:`);
      hashInto(hash, value);
      hash.update(comma);
    });
    return hexDigest(hash);
  }
}

/** The same as SQL. */
export function rowHashSql(columns: readonly { readonly name: string }[]): string {
  const parts = columns.map(({ name }) => {
    const text = outputTextSql(name);
    const bytes = `octet_length(convert_to(${text}, 'UTF8'))::text`;
    return `case when not ${isNullSql(name)} then ${escapeLiteral(prefix(name))} || ${bytes} || ':' || ${text} || ',' end`;
  });
  // Not concatenated by operators, which would nest as deep as the table is wide.
  return sha256Sql(`array_to_string(array[${parts.join(", ")}]::text[], '')`);
}

/** What the hash is made over: a row of other columns is another row. */
export function hashedColumnsText({ columns }: Relation): string {
  return JSON.stringify(columns.map(({ name, typeOid, typmod }) => [name, typeOid, typmod]));
}

function prefix(name: string): string {
  return `${Buffer.byteLength(name)}:${name}=`;
}
