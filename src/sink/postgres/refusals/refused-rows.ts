// Describes of which table, and if possible of which column, the sink's server refused rows. It never reports a value, which the server's own
// message may quote.

import { DatabaseError, escapeIdentifier } from "pg";
import { qualifiedName } from "../../../change/relation.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { rowOf, rowOfCopy } from "../../../errors/row-in-reason.ts";
import type { TargetName } from "../schema/target-name.ts";

/**
 * Turns `error` of a statement that writes to `target` into a MillraceError. `columnNames` are in the order of the staging table's `c0`, `c1`, …
 * A source error in the middle of a copy is returned as it is.
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
  // An undefined name inside a value: only reg* types and aclitem look names up.
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

/** As `describeRefusedRows`, for a deferred constraint: the server may name its table. */
export function describeRefusedLate(error: unknown): MillraceError {
  const { schema, table } = error instanceof DatabaseError ? error : {};
  if (schema && table) return describeRefusedRows(error, { schema, name: table }, []);
  return describePostgresError(error, "sink", "sink_rejected_rows");
}

/** Adds the table's name to `error`, which a row of the table caused. */
export function withTable(error: MillraceError, table: TargetName): MillraceError {
  return error.message.startsWith("Table ") ? error : describeRefusedRows(error.cause, table, []);
}

/** The refused row of a copy. The error's cause says why. */
export class CopyRowRefused extends MillraceError {
  constructor(
    /** Counted from 1; null: not known. */
    readonly row: number | null,
    /** As `(a, b)=(1, x)`; null: the row has no key, or it is not known. */
    readonly key: string | null,
    cause: unknown,
  ) {
    super("sink_rejected_rows", "a row of a copy was refused", { cause });
  }
}

/** As `describeRefusedRows`, for a copy, with the row if it is known. */
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

/** The line of a COPY that the server names in `error`, counted from 1. */
export function lineOf(error: unknown): number | null {
  if (!(error instanceof DatabaseError)) return null;
  const line = /(?:^|\n)COPY .+?, line (\d+)/.exec(error.where ?? "")?.[1];
  return line === undefined ? null : Number(line);
}

/**
 * The SQL that helps where a unique index, a foreign key or a check refused a row; otherwise empty. The constraint is somebody else's, as a key that
 * millrace has made follows the source's. `isOfStream`: at COMMIT all rows of a transaction are there.
 */
export function keyHint(error: unknown, isOfStream = false): string {
  if (!(error instanceof DatabaseError)) return "";
  const { schema = "", table = "", constraint = "" } = error;
  // Tables are copied one by one, so that no order satisfies a cycle of foreign keys.
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
  if (error.code === sqlState.checkViolation && table && constraint) {
    const drop = `ALTER TABLE ${sqlName({ schema, name: table })} DROP CONSTRAINT ${escapeIdentifier(constraint)};`;
    return ` Where the source may have such rows, run: ${drop}`;
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

/** Parses the server's context `COPY t, line 1, column c: "value"`. Names may contain commas and colons. */
function columnOf(error: unknown, columnNames: readonly string[]): string | null {
  if (!(error instanceof DatabaseError)) return null;
  const match = /(?:^|\n)COPY (.+?), line \d+, column (.+)/s.exec(error.where ?? "");
  if (!match) return null;
  const [, relation = "", behind = ""] = match;
  if (relation.startsWith("millrace_stage_")) return columnNames[Number(/^c(\d+)/.exec(behind)?.[1])] ?? null;
  const fitting = columnNames.filter((name) => behind === name || behind.startsWith(`${name}: `));
  return fitting.toSorted((a, b) => b.length - a.length)[0] ?? null;
}
