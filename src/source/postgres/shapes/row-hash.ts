// The row hash, the key of a table without one: lower-case hex of SHA-256 over the columns that are not null, in order,
// each as `<bytes of name>:<name>=<bytes of text>:<text>,` in UTF-8. Adding a column leaves the hashes of rows in which
// it is null unchanged.

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

  /** Hashes the columns' texts in UTF-8; null for null. */
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

/** The same hash in SQL. */
export function rowHashSql(columns: readonly { readonly name: string }[]): string {
  const parts = columns.map(({ name }) => {
    const text = outputTextSql(name);
    const bytes = `octet_length(convert_to(${text}, 'UTF8'))::text`;
    return `case when not ${isNullSql(name)} then ${escapeLiteral(prefix(name))} || ${bytes} || ':' || ${text} || ',' end`;
  });
  // An array, because concatenation operators would nest as deep as the table is wide.
  return sha256Sql(`array_to_string(array[${parts.join(", ")}]::text[], '')`);
}

/** The columns of the hash: with other columns, the row has another hash. */
export function hashedColumnsText({ columns }: Relation): string {
  return JSON.stringify(columns.map(({ name, typeOid, typmod }) => [name, typeOid, typmod]));
}

function prefix(name: string): string {
  return `${Buffer.byteLength(name)}:${name}=`;
}
