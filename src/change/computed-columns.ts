// How a source and a sink agree on which generated columns the sink computes itself.

import type { TableShape } from "./relation.ts";

export type ComputedAnswer =
  /** `isThere`: the sink has the column under its name of now, and computes it as the source does. */
  | { readonly isComputed: true; readonly isThere: boolean }
  | { readonly isComputed: false; readonly reason: string };

/** By OID of the table and number of the column. */
export type ComputedColumns = ReadonlyMap<number, ReadonlyMap<number, ComputedAnswer>>;

/**
 * Asks a sink which columns of `TableShape.generated` it computes itself. Such a column is not sent to it.
 * `sourceVersion`: of the source's server, as `server_version_num`.
 */
export type AskComputed = (tables: readonly TableShape[], sourceVersion: number) => Promise<ComputedColumns>;
