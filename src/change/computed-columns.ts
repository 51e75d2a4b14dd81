// How a source and a sink agree on which generated columns the sink computes itself.

import type { TableShape } from "./relation.ts";

/** By OID of the table and number of the column: why the sink cannot compute the column; null: it does. */
export type ComputedColumns = ReadonlyMap<number, ReadonlyMap<number, string | null>>;

/** Asks a sink which columns of `TableShape.generated` it computes itself. Such a column is not sent to it. */
export type AskComputed = (tables: readonly TableShape[]) => Promise<ComputedColumns>;
