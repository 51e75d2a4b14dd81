// What of a table a copy is of, where it is not the whole table.

import type { PageRange } from "./page-range.ts";

export type CopyPart =
  /** What lies in a range of its pages. */
  | { readonly kind: "range"; readonly range: PageRange }
  /** The rows that have these keys, as far as there are any. */
  | { readonly kind: "rows"; readonly keys: readonly RowKey[] };

/** The text of each value of a row's key, in the order of the relation's key. */
export type RowKey = readonly string[];
