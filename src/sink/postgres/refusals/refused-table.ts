// Tells of a refused row what mends its table: the columns whose types differ, and the SQL. It only reads.

import { type Client, escapeIdentifier } from "pg";
import type { Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError, ofTable } from "../../../errors/millrace-error.ts";
import type { TargetName } from "../schema/target-name.ts";
import { readTargetTable } from "../schema/target-table.ts";
import { columnsThatMayRefuse, describeDifferences } from "../types/type-differences.ts";
import { MigrationRefused } from "./migration-refused.ts";
import { databaseError } from "./remedy.ts";
import { keepingSql } from "./repair-sql.ts";

/** A range's bounds in the wrong order, string data right truncation, numeric value out of range, datetime errors, invalid text and binary representation, untranslatable character. */
const typeStates = new Set(["22000", "22001", "22003", "22007", "22008", "22P02", "22P03", "22P05"]);

/** Whether the type of a column may be why the server refused a value. */
export function isTypeRefused(error: unknown): boolean {
  return typeStates.has(databaseError(error)?.code ?? "");
}

/** `error` as that of the relation's table, with what mends it. Not in a transaction that has failed. */
export async function withRemedy(
  client: Client,
  target: TargetName,
  relation: Relation,
  error: MillraceError,
): Promise<MillraceError> {
  const { schema, name } = relation;
  const table = isTypeRefused(error) ? await readTargetTable(client, target) : null;
  const differing = table ? columnsThatMayRefuse(table, relation) : [];
  if (!table || differing.length === 0)
    return ofTable(error, { schema, name, commands: constraintCommands(error) });
  const commands = await keepingSql(client, table, differing);
  const sql = commands.map((command) => `${command};`).join(" ");
  const text = `${error.message} ${describeDifferences(differing)} Run at the sink: ${sql}`;
  return ofTable(error, { schema, name, commands }, text);
}

const constraintStates = new Set<string>([
  sqlState.foreignKeyViolation,
  sqlState.checkViolation,
  sqlState.exclusionViolation,
]);

/** As `withRemedy`, for a target that does not fit the source's table: the error says what to do. */
export function ofMismatch<E>(error: E, relation: Relation | null): E | MillraceError {
  if (!(error instanceof MillraceError) || error.code !== "sink_schema_mismatch" || !relation) return error;
  const { schema, name } = relation;
  const commands = error instanceof MigrationRefused ? error.commands : [];
  return ofTable(error, { schema, name, commands });
}

/** A unique index need not be a constraint, so that the reason alone says how to drop it. */
function constraintCommands(error: MillraceError): readonly string[] {
  const { code = "", schema, table, constraint } = databaseError(error) ?? {};
  if (!constraintStates.has(code) || !schema || !table || !constraint) return [];
  return [`alter table ${sqlName({ schema, name: table })} drop constraint ${escapeIdentifier(constraint)}`];
}
