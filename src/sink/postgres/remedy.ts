// What can be done at once about rows that the sink's server refused: once more with care, or after a change of the table
// that the source's own change stands for. Pure.

import { DatabaseError, escapeIdentifier } from "pg";
import { sqlName } from "../../connection/sql-name.ts";
import { sqlState } from "../../connection/sql-state.ts";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { isRowsMissing } from "./rows-missing.ts";

export type Remedy =
  /** Replace what has the same keys: values may have swapped, or rows be there that should not. */
  | { readonly kind: "care" }
  /** Apply the changes one by one, as the source made them: constraints that it obeyed at each of them are obeyed then. */
  | { readonly kind: "order" }
  /** The column whose table refused a row. */
  | { readonly kind: "allow null"; readonly column: string };

/** Null: there is none. Throws `sink_schema_mismatch` with the SQL when the strategy does not allow the change. */
export function remedyFor(
  error: unknown,
  tried: { readonly care: boolean; readonly order: boolean },
  strategy: PostgresSinkConfig["migration_strategy"],
): Remedy | null {
  // With care, values that were left out because the row has them are sent as well.
  if (isRowsMissing(error)) return tried.care ? null : { kind: "care" };
  const refusal = databaseError(error);
  if (refusal?.code === sqlState.foreignKeyViolation) return tried.order ? null : { kind: "order" };
  if (refusal?.code === sqlState.uniqueViolation || refusal?.code === sqlState.exclusionViolation) {
    return tried.care ? null : { kind: "care" };
  }
  const { schema, table, column } = refusal ?? {};
  if (refusal?.code !== sqlState.notNullViolation || !schema || !table || !column) return null;
  const sql = `alter table ${sqlName({ schema, name: table })} alter column ${escapeIdentifier(column)} drop not null`;
  if (!strategy.disable_all && strategy.allowed.includes("Nullability"))
    return { kind: "allow null", column };
  throw new MillraceError(
    "sink_schema_mismatch",
    `Column ${column} of table ${schema}.${table} at the sink does not take null, and the source's does by now. ` +
      `migration_strategy does not allow millrace to change it. Run: ${sql};`,
    { cause: error },
  );
}

/** What the server said, however often it was described since. */
function databaseError(error: unknown): DatabaseError | null {
  if (error instanceof DatabaseError) return error;
  return error instanceof Error && error.cause !== undefined ? databaseError(error.cause) : null;
}
