// Describes missing privileges of the sink's role, with the SQL that an owner or an administrator must run.
// https://www.postgresql.org/docs/current/ddl-priv.html

import { DatabaseError, escapeIdentifier } from "pg";
import { qualifiedName } from "../../../change/relation.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { TargetName } from "../schema/target-name.ts";

/**
 * `error` of a statement of the role's, where it says that a privilege is missing, as a MillraceError with the SQL; else null.
 * `target`: the table that it was about; null: one of millrace's own, or none.
 */
export function describeDenial(
  error: unknown,
  user: string | undefined,
  target: TargetName | null,
): MillraceError | null {
  if (!(error instanceof DatabaseError) || error.code !== sqlState.insufficientPrivilege) return null;
  const described = describePostgresError(error, "sink");
  const where = target === null ? "" : `Table ${qualifiedName(target)}: `;
  const sql = remedy(error.message, escapeIdentifier(user ?? ""), target);
  const run = sql === null ? "" : ` Run: ${sql};`;
  const commands = sql === null ? [] : [sql];
  return new MillraceError(described.code, `${where}${described.message}${run}`, { cause: error, commands });
}

/** Null: the message is in another language, or does not say which privilege is missing. */
function remedy(message: string, role: string, target: TargetName | null): string | null {
  const schema = /^permission denied for schema (.+)$/s.exec(message)?.[1];
  if (schema !== undefined) return `GRANT USAGE, CREATE ON SCHEMA ${escapeIdentifier(schema)} TO ${role}`;
  const database = /^permission denied .*database "?(.+?)"?$/s.exec(message)?.[1];
  if (database !== undefined)
    return `GRANT CREATE, TEMPORARY ON DATABASE ${escapeIdentifier(database)} TO ${role}`;
  if (/row-level security/.test(message)) return `ALTER ROLE ${role} BYPASSRLS`;
  // A trigger may have met another table than the one that was written to.
  const table = /^(?:permission denied for|must be owner of) table (.+)$/s.exec(message)?.[1];
  if (table === undefined || (target && table !== target.name)) return null;
  if (message.startsWith("must be owner")) return target && `ALTER TABLE ${sqlName(target)} OWNER TO ${role}`;
  if (target) return `GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ${sqlName(target)} TO ${role}`;
  return `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA millrace TO ${role}`;
}
