// How the rows of a table are compared between source and sink: by what decides the texts of their columns, which both servers hash in the same way.
// Pure.

import type { RowKey } from "../change/copy-part.ts";
import type { PageRange } from "../change/page-range.ts";
import type { HashedForm } from "./hashed-form.ts";

/** A column that both sides have and the sink writes. */
export interface ComparedColumn {
  /** The source's number; see `Column.number`. */
  readonly number: number;
  /** The built-in type of the sink's column, as SQL, where it gives values another text: the source's text is read as it first. */
  readonly readAs: string | null;
  readonly form: HashedForm;
}

export interface RowComparison {
  readonly columns: readonly ComparedColumn[];
  /** Numbers of the key's columns, in its order; empty: nothing tells rows apart but their columns. */
  readonly key: readonly number[];
  /** Whether equal rows without a key count as one. */
  readonly areEqualRowsOne: boolean;
  /** The servers hash bytes of their encodings, so that texts are made UTF-8 first where one of them is not UTF-8. */
  readonly isEncoded: boolean;
  /** How many of 1,024 parts of the rows are compared, by their keys; null: all rows. */
  readonly sample: number | null;
}

/** What a server is asked of a table's rows. Rows are divided into so many buckets by a hash of their keys. */
export type DigestScan =
  /** For each bucket how many rows it has, and a digest of them. A power of two of buckets. */
  | { readonly kind: "buckets"; readonly buckets: number; readonly range: PageRange | null }
  /** A digest of each row in these buckets, with its key. */
  | { readonly kind: "rows"; readonly buckets: number; readonly among: readonly number[] }
  /** The texts of the key's and of the compared columns, of rows with these keys. */
  | { readonly kind: "texts"; readonly keys: readonly RowKey[] };

/** What a server says of its hashes: only servers that agree can be compared. */
export interface HashingServer {
  readonly isUtf8: boolean;
  /** The hash of known values. It differs where bytes have another order. */
  readonly probe: string;
}

/** Returns the hashing of both servers, or null if it is not the same. */
export function agreedEncoding(one: HashingServer, other: HashingServer): { isEncoded: boolean } | null {
  return one.probe === other.probe ? { isEncoded: !one.isUtf8 || !other.isUtf8 } : null;
}
