// Translates a failure to read one table: whether it concerns the table alone, and what to do about it.

import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import { describePostgresError, sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { describeReadDenial } from "../checks/privileges.ts";

/** The table was altered or dropped. */
const tableChanged: ReadonlySet<string> = new Set([
  sqlState.undefinedTable,
  sqlState.undefinedColumn,
  sqlState.invalidSchemaName,
]);

/**
 * Failures of the table alone are `source_permission_denied` with the GRANT, `table_changed` and `table_unreadable`;
 * others are the connection's.
 */
export function describeReadFailure(error: unknown, user: string, { relation }: TableShape): MillraceError {
  if (error instanceof MillraceError) return error;
  const state = sqlStateOf(error) ?? "";
  const denial = describeReadDenial(error, user, relation);
  if (denial) return denial;
  const name = qualifiedName(relation);
  if (tableChanged.has(state)) {
    return new MillraceError("table_changed", `Table ${name} was altered or dropped before its copy began.`, {
      cause: error,
    });
  }
  if (state === sqlState.lockNotAvailable) {
    return new MillraceError(
      "table_unreadable",
      `Table ${name} is locked by another session, and did not become free in time. Find it: SELECT pid, mode FROM pg_locks ` +
        `WHERE granted AND relation = '${sqlName(relation).replaceAll("'", "''")}'::regclass;`,
      { cause: error },
    );
  }
  const described = describePostgresError(error, "source", "table_unreadable");
  const isCancelled = state === sqlState.queryCanceled;
  if (described.code !== "table_unreadable" && !isCancelled) return described;
  return new MillraceError("table_unreadable", `Table ${name}: ${described.message}`, { cause: error });
}
