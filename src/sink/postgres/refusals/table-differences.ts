// Compares all columns of a target with the source's, beyond what a plan of changes has: types that somebody chose, NOT NULL, and columns that the
// sink computes. For a table that is set aside or about to be let back in, so that its commands are all that it needs. Pure.

import { escapeIdentifier } from "pg";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { TableChange } from "../schema/migration/table-migration.ts";
import type { TargetColumn, TargetTable } from "../schema/target-table.ts";
import {
  columnsThatCannotHold,
  columnsThatMayRefuse,
  type TypeDifference,
} from "../types/type-differences.ts";
import { MigrationRefused } from "./migration-refused.ts";

export interface TableDifferences {
  readonly types: readonly TypeDifference[];
  /** Columns that do not take null, while the source's do. */
  readonly nulls: readonly string[];
  /** Columns that the sink computes, while the source sends values for them. */
  readonly computed: readonly TargetColumn[];
}

export const noDifferences: TableDifferences = { types: [], nulls: [], computed: [] };

export interface ComparedTable {
  readonly table: TargetTable;
  readonly relation: Relation;
  /** Columns that are NOT NULL at the source; null: not known. */
  readonly notNull: readonly string[] | null;
  /** Those that are going to be made. What they settle does not differ. */
  readonly changes: readonly TableChange[];
}

/** `isStrict`: also types that take most of the source's values, as one of them was refused. */
export function compareColumns(
  { table, relation, notNull, changes }: ComparedTable,
  isStrict: boolean,
): TableDifferences {
  const settled = new Set(changes.flatMap(namesOf));
  const isLeft = ({ name }: { readonly name: string }) => !settled.has(name);
  const differing = isStrict ? columnsThatMayRefuse : columnsThatCannotHold;
  const types = differing(table, relation).filter(({ column }) => isLeft(column));
  const keys = table.uniqueKeys.filter(({ isPrimary }) => isPrimary).flatMap((key) => key.columns);
  const isKey = (name: string) => keys.some(({ column }) => column === name);
  const mayBeNull = (name: string) =>
    notNull !== null && relation.columns.some((column) => column.name === name) && !notNull.includes(name);
  return {
    types,
    nulls: table.columns
      .filter((column) => column.notNull && !column.generated && isLeft(column))
      .filter(({ name }) => mayBeNull(name) && !isKey(name))
      .map(({ name }) => name),
    computed: columnsComputed(table, relation),
  };
}

function namesOf(change: TableChange): readonly string[] {
  switch (change.kind) {
    case "retype":
    case "add":
      return [change.column.name];
    case "rename":
      return [change.from, change.to];
    case "drop":
    case "allow null":
      return [change.name];
    case "drop key":
    case "add key":
      return [];
    default:
      return change satisfies never;
  }
}

/** A generated column takes no values. */
export function columnsComputed({ columns }: TargetTable, relation: Relation): readonly TargetColumn[] {
  return columns.filter(
    ({ name, generated }) => generated && relation.columns.some((column) => column.name === name),
  );
}

export function computedRefused(
  { target }: TargetTable,
  computed: readonly TargetColumn[],
): MigrationRefused {
  return new MigrationRefused(
    `Table ${qualifiedName(target)} at the sink does not fit the source's. ${describeComputed(computed)}`,
    computed.map((column) => plainColumnSql(target, column)),
  );
}

export function describeComputed(computed: readonly TargetColumn[]): string {
  return computed
    .map(({ name }) => {
      return `Column ${name} is computed at the sink, and the source has values for it: exclude it in the catalog, or make it a plain one.`;
    })
    .join(" ");
}

/** A virtual column has no values that could stay. */
export function plainColumnSql(
  target: TargetTable["target"],
  { name, typeName, generatedAs }: TargetColumn,
): string {
  const column = escapeIdentifier(name);
  return generatedAs?.isVirtual
    ? `alter table ${sqlName(target)} drop column ${column}, add column ${column} ${typeName}`
    : `alter table ${sqlName(target)} alter column ${column} drop expression`;
}
