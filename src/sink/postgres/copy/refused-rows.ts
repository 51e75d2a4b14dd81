// Says which table, and where it can be told which column, the sink's server refused rows of. Never a value: the server's
// own words may quote one.

import { DatabaseError, escapeIdentifier } from "pg";
import { qualifiedName } from "../../../change/relation.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { rowOf, rowOfCopy } from "../../../errors/row-in-reason.ts";
import type { TargetName } from "../schema/target-name.ts";

/**
 * `error` of a statement that writes to `target`, as a MillraceError. `columnNames` are in the order of the tuple, as those
 * of the staging table are: `c0`, `c1`, …. A failure of the source in the middle of a copy is returned
 * as it is.
 */
export function describeRefusedRows(
  error: unknown,
  target: TargetName,
  columnNames: readonly string[],
): MillraceError {
  if (error instanceof MillraceError && !error.code.startsWith("sink_")) return error;
  const described = describePostgresError(error, "sink", "sink_rejected_rows");
  const column = columnOf(error, columnNames);
  const table = `Table ${qualifiedName(target)}`;
  if (column === null) return withText(described, `${table}: ${described.message}`, error);
  // A value that is no value: only reg* types and aclitem look names up while they read one.
  if (/^(42|3F)/.test((error as DatabaseError).code ?? "")) {
    return new MillraceError(
      "sink_rejected_rows",
      `${table}: a value of column ${column} names an object that the sink does not have. Create it there, or keep its ` +
        `name alone, as text: ALTER TABLE ${sqlName(target)} ALTER COLUMN ${escapeIdentifier(column)} TYPE text;`,
      { cause: error },
    );
  }
  return withText(described, `${table}, column ${column}: ${described.message}`, error);
}

/** `error` of a constraint that was checked behind the statement: the server may name its table. */
export function describeRefusedLate(error: unknown): MillraceError {
  const { schema, table } = error instanceof DatabaseError ? error : {};
  if (schema && table) return describeRefusedRows(error, { schema, name: table }, []);
  return describePostgresError(error, "sink", "sink_rejected_rows");
}

/** `error`, which came of a row of this table, with its name. */
export function withTable(error: MillraceError, table: TargetName): MillraceError {
  return error.message.startsWith("Table ") ? error : describeRefusedRows(error.cause, table, []);
}

/** Which row of a copy was refused, and why: its cause. */
export class CopyRowRefused extends MillraceError {
  constructor(
    /** From 1; null where it is not known. */
    readonly row: number | null,
    /** As `(a, b)=(1, x)`; null where it has none, or it is not at hand. */
    readonly key: string | null,
    cause: unknown,
  ) {
    super("sink_rejected_rows", "a row of a copy was refused", { cause });
  }
}

/** As `describeRefusedRows`, of a copy, with the row as far as it is known. */
export function describeRefusedCopy(
  error: unknown,
  target: TargetName,
  columnNames: readonly string[],
): MillraceError {
  const found = error instanceof CopyRowRefused ? error : null;
  const cause = found?.cause ?? error;
  const described = describeRefusedRows(cause, target, columnNames);
  const row = found?.row ?? lineOf(cause);
  const key = found?.key ?? null;
  const text = `${described.message}${placeOf(row, key)}${keyHint(cause)}`;
  return withText(described, text, described.cause);
}

function placeOf(row: number | null, key: string | null): string {
  if (key === null) return row === null ? "" : ` It is row ${row} of the copy.`;
  return `${row === null ? rowOf(key) : rowOfCopy(row, key)}.`;
}

/** The line of a COPY that the server names in `error`, from 1. */
export function lineOf(error: unknown): number | null {
  if (!(error instanceof DatabaseError)) return null;
  const line = /(?:^|\n)COPY .+?, line (\d+)/.exec(error.where ?? "")?.[1];
  return line === undefined ? null : Number(line);
}

/**
 * The SQL for a row that a unique index or a foreign key refused; empty for others. `isOfStream`: the rows of a whole transaction are there at COMMIT. A key that millrace has made follows the source's: one that refuses rows was made by
 * somebody else.
 */
export function keyHint(error: unknown, isOfStream = false): string {
  if (!(error instanceof DatabaseError)) return "";
  const { schema = "", table = "", constraint = "" } = error;
  // Where tables refer to each other in a ring, no order satisfies them; tables are copied one by one.
  if (error.code === sqlState.foreignKeyViolation) {
    const alter = `ALTER TABLE ${sqlName({ schema, name: table })}`;
    const name = escapeIdentifier(constraint);
    const later = isOfStream
      ? `have it checked at COMMIT: ${alter} ALTER CONSTRAINT ${name} DEFERRABLE; or `
      : "";
    return (
      ` Switch it off for the sink's role (GRANT SET ON PARAMETER session_replication_role, PostgreSQL 15 or later), or ${later}` +
      `run: ${alter} DROP CONSTRAINT ${name};`
    );
  }
  if (error.code !== sqlState.uniqueViolation) return "";
  const index = `DROP INDEX ${sqlName({ schema, name: constraint })};`;
  return (
    ` Where the source may have such rows, run: ALTER TABLE ${sqlName({ schema, name: table })} DROP CONSTRAINT ` +
    `${escapeIdentifier(constraint)}; or, for an index that is no constraint: ${index}`
  );
}

function withText({ code }: MillraceError, text: string, cause: unknown): MillraceError {
  return new MillraceError(code, text, { cause });
}

/** `COPY t, line 1, column c: "value"` is where the server says that it was. Names may hold all that stands around them. */
function columnOf(error: unknown, columnNames: readonly string[]): string | null {
  if (!(error instanceof DatabaseError)) return null;
  const match = /(?:^|\n)COPY (.+?), line \d+, column (.+)/s.exec(error.where ?? "");
  if (!match) return null;
  const [, relation = "", behind = ""] = match;
  if (relation.startsWith("millrace_stage_")) return columnNames[Number(/^c(\d+)/.exec(behind)?.[1])] ?? null;
  const fitting = columnNames.filter((name) => behind === name || behind.startsWith(`${name}: `));
  return fitting.toSorted((a, b) => b.length - a.length)[0] ?? null;
}
