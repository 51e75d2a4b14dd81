// The part of a table that a copy reads, where it does not read the whole table.

import type { PageRange } from "./page-range.ts";

export type CopyPart =
  /** The rows in a range of its pages. */
  | { readonly kind: "range"; readonly range: PageRange }
  /** The rows with these keys, as far as they exist. */
  | { readonly kind: "rows"; readonly keys: readonly RowKey[] };

/** The text of each key column's value, in the order of the relation's key. */
export type RowKey = readonly string[];
