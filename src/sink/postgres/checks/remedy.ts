// What can be done at once about rows that the sink's server refused: once more with care, or after a change of the table
// that the source's own change stands for. Pure.

import { DatabaseError } from "pg";
import { sqlState } from "../../../connection/sql-state.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import { isRowsMissing } from "../apply/rows-missing.ts";
import { MigrationRefused } from "../schema/migration-refused.ts";
import { nullRefused } from "../schema/migration-sql.ts";
import { isAllowed } from "../schema/table-migration.ts";

export type Remedy =
  /** Replace what has the same keys: values may have swapped, or rows be there that should not. */
  | { readonly kind: "care" }
  /** Apply the changes one by one, as the source made them: constraints that it obeyed at each of them are obeyed then. */
  | { readonly kind: "order" }
  /** Look at the tables again: somebody has taken one, or a column, away. */
  | { readonly kind: "look" }
  /** The column whose table refused a row. */
  | { readonly kind: "allow null"; readonly column: string }
  /** Somebody has to change the table. */
  | { readonly kind: "set aside"; readonly refusal: MigrationRefused };

/** What was done about a batch already. */
export type Tried = Readonly<Record<"care" | "order" | "look", boolean>>;

/** Null: there is none. */
export function remedyFor(
  error: unknown,
  tried: Tried,
  strategy: PostgresSinkConfig["migration_strategy"],
): Remedy | null {
  if (error instanceof MigrationRefused) return { kind: "set aside", refusal: error };
  // With care, values that were left out because the row has them are sent as well.
  if (isRowsMissing(error)) return tried.care ? null : { kind: "care" };
  const code = databaseError(error)?.code;
  if (code === sqlState.foreignKeyViolation) return tried.order ? null : { kind: "order" };
  if (code === sqlState.uniqueViolation || code === sqlState.exclusionViolation) {
    return tried.care ? null : { kind: "care" };
  }
  const isGone = code === sqlState.undefinedColumn || code === sqlState.undefinedTable;
  if (isGone) return tried.look ? null : { kind: "look" };
  const refused = refusedNull(error);
  if (refused === null) return null;
  const { column, refusal } = refused;
  return isAllowed(strategy, "Nullability") ? { kind: "allow null", column } : { kind: "set aside", refusal };
}

/** The column that has refused null, and that as a change of its table that is called for; null: something else was refused. */
export function refusedNull(
  error: unknown,
): { readonly column: string; readonly refusal: MigrationRefused } | null {
  const { code, schema, table, column } = databaseError(error) ?? {};
  if (code !== sqlState.notNullViolation || !schema || !table || !column) return null;
  return { column, refusal: nullRefused({ schema, name: table }, column, error) };
}

/** What the server said, however often it was described since. */
function databaseError(error: unknown): DatabaseError | null {
  if (error instanceof DatabaseError) return error;
  return error instanceof Error && error.cause !== undefined ? databaseError(error.cause) : null;
}
