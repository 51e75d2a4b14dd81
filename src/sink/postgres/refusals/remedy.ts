// Decides what to try when the sink's server has refused rows: another way to apply them, or a change of the target. Pure.

import { DatabaseError } from "pg";
import { sqlState } from "../../../connection/sql-state.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import { nullRefused } from "../schema/migration/migration-sql.ts";
import { isAllowed } from "../schema/migration/table-migration.ts";
import { MigrationRefused } from "./migration-refused.ts";
import { isRowsMissing } from "./rows-missing.ts";

export type Remedy =
  /** Replace rows of the same keys: rows may have swapped unique values, or rows may be there that should not be. */
  | { readonly kind: "upsert" }
  /** Apply the changes one by one in the source's order, in which they violate no foreign key, and no unique index. */
  | { readonly kind: "order" }
  /** Read the targets again: somebody has dropped a table or a column. */
  | { readonly kind: "refresh" }
  /** Drop the column's NOT NULL. */
  | { readonly kind: "allow null"; readonly column: string }
  /** Somebody must change the target. */
  | { readonly kind: "set aside"; readonly refusal: MigrationRefused };

/** What was tried already for a batch. */
export type Tried = Readonly<Record<"upsert" | "order" | "refresh", boolean>>;

/** Null: there is no remedy. `needsOrder`: as `BatchApplier` has it; elsewhere to replace the rows does all that their order can. */
export function remedyFor(
  error: unknown,
  tried: Tried,
  needsOrder: boolean,
  strategy: PostgresSinkConfig["migration_strategy"],
): Remedy | null {
  if (error instanceof MigrationRefused) return { kind: "set aside", refusal: error };
  // An upsert also sends unchanged values that were left to the sink's row.
  if (isRowsMissing(error)) return tried.upsert ? null : { kind: "upsert" };
  const code = databaseError(error)?.code;
  if (code === sqlState.foreignKeyViolation) return tried.order ? null : { kind: "order" };
  if (code === sqlState.uniqueViolation || code === sqlState.exclusionViolation) {
    if (!tried.upsert) return { kind: "upsert" };
    return needsOrder && !tried.order ? { kind: "order" } : null;
  }
  const isGone = code === sqlState.undefinedColumn || code === sqlState.undefinedTable;
  if (isGone) return tried.refresh ? null : { kind: "refresh" };
  const refused = refusedNull(error);
  if (refused === null) return null;
  const { column, refusal } = refused;
  return isAllowed(strategy, "Nullability") ? { kind: "allow null", column } : { kind: "set aside", refusal };
}

/** The column that refused null, and the change that it needs; null: something else was refused. */
export function refusedNull(
  error: unknown,
): { readonly column: string; readonly refusal: MigrationRefused } | null {
  const { code, schema, table, column } = databaseError(error) ?? {};
  if (code !== sqlState.notNullViolation || !schema || !table || !column) return null;
  return { column, refusal: nullRefused({ schema, name: table }, column, error) };
}

/** The server's error at the end of the chain of causes. */
export function databaseError(error: unknown): DatabaseError | null {
  if (error instanceof DatabaseError) return error;
  return error instanceof Error && error.cause !== undefined ? databaseError(error.cause) : null;
}
