// Writes the changes of a target as SQL.
// https://www.postgresql.org/docs/current/sql-altertable.html

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import { qualifiedName } from "../../../../change/relation.ts";
import { sqlName } from "../../../../connection/sql-name.ts";
import { MigrationRefused, notAllowed } from "../../refusals/migration-refused.ts";
import { addKeySql, resolveTypes } from "../table-schema.ts";
import type { TargetName } from "../target-name.ts";
import type { AddKey } from "./key-migration.ts";
import type { TableChange } from "./table-migration.ts";

/** The statements for each change, without semicolons. `isEmpty`: no row must be converted. */
export async function migrationSql(
  client: Client,
  target: TargetName,
  changes: readonly TableChange[],
  isEmpty: boolean,
): Promise<readonly string[]> {
  const typed = changes.flatMap((change) => ("column" in change ? [change.column] : []));
  const types = typed.length === 0 ? [] : await resolveTypes(client, typed);
  const typeOf = new Map(typed.map((column, i) => [column, types[i]?.name ?? "text"]));
  return changes.flatMap((change) =>
    statements(change, target, (column) => typeOf.get(column) ?? "text", isEmpty),
  );
}

type Typed = Extract<TableChange, { readonly column: unknown }>["column"];

function statements(
  change: TableChange,
  target: TargetName,
  typeOf: (column: Typed) => string,
  isEmpty: boolean,
): readonly string[] {
  if (change.kind === "drop key" && !change.isPrimary) {
    return [`drop index ${sqlName({ schema: target.schema, name: change.name })}`];
  }
  if (change.kind === "add key") return [addKeySql(target, change)];
  return clauses(change, typeOf, isEmpty).map((clause) => `alter table ${sqlName(target)} ${clause}`);
}

function clauses(
  change: Exclude<TableChange, AddKey>,
  typeOf: (column: Typed) => string,
  isEmpty: boolean,
): readonly string[] {
  switch (change.kind) {
    case "drop":
      return [`drop column ${escapeIdentifier(change.name)}`];
    case "rename":
      return [`rename column ${escapeIdentifier(change.from)} to ${escapeIdentifier(change.to)}`];
    case "retype": {
      const name = escapeIdentifier(change.column.name);
      const type = typeOf(change.column);
      const isThere = { identity: "identity if exists", default: "default" };
      return [
        ...change.drops.map((what) => `alter column ${name} drop ${isThere[what]}`),
        `alter column ${name} type ${type} using ${isEmpty ? "null" : name}::${type}`,
      ];
    }
    case "add":
      return addClauses(change.column, typeOf(change.column));
    case "drop key":
      return [`drop constraint ${escapeIdentifier(change.name)}`];
    case "allow null":
      return [`alter column ${escapeIdentifier(change.name)} drop not null`];
    default:
      return change satisfies never;
  }
}

/**
 * Adds the column with the value that existing rows got at the source. It is a default only for a moment, as later rows bring their values.
 * DDL takes no parameters.
 */
function addClauses(column: Typed, type: string): readonly string[] {
  const name = escapeIdentifier(column.name);
  if (column.addedValue === null) return [`add column ${name} ${type}`];
  return [
    `add column ${name} ${type} default ${escapeLiteral(column.addedValue)}`,
    `alter column ${name} drop default`,
  ];
}

/** `sql`: the statements that would make the changes. */
export function migrationRefused(
  target: TargetName,
  changes: readonly TableChange[],
  sql: readonly string[],
): MigrationRefused {
  const isChosen = changes.some((change) => change.kind === "retype" && change.isChosen);
  const why = isChosen
    ? "A column has a type there that somebody has chosen, and that has no room for what the source's holds by now."
    : notAllowed;
  return new MigrationRefused(
    `Table ${qualifiedName(target)} at the sink does not fit the source's. ${why}`,
    sql,
  );
}

/** Nobody copies the rows again. `sql`: of `emptyingSql`. */
export function conversionRefused(
  target: TargetName,
  sql: readonly string[],
  cause: unknown,
): MigrationRefused {
  const why =
    `Table ${qualifiedName(target)} at the sink has values that a column's new type does not take, and nothing is copied by itself ` +
    "(skip_snapshots). The SQL empties the column: a Snapshot task brings the source's values then.";
  return new MigrationRefused(why, sql, null, cause);
}

export function allowNullSql(target: TargetName, column: string): string {
  return `alter table ${sqlName(target)} alter column ${escapeIdentifier(column)} drop not null`;
}

/** The table of this name is the history of another one. */
export function historyInTheWay(target: TargetName): MigrationRefused {
  return new MigrationRefused(
    `Table ${qualifiedName(target)} at the sink is the history of another table: leave one of the two out of the catalog, or set another ` +
      "suffix in history_mode.",
    [],
  );
}

/** A row has null in a column that is NOT NULL at the sink. */
export function nullRefused(target: TargetName, column: string, cause?: unknown): MigrationRefused {
  const sql = allowNullSql(target, column);
  const why = `Column ${column} of table ${qualifiedName(target)} at the sink does not take null, and the source's does by now. ${notAllowed}`;
  return new MigrationRefused(why, [sql], column, cause);
}
