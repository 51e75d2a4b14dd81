// The staging table of one target table: a temporary table that takes a batch's rows by COPY, from which they are
// merged set-wise. Column `g` says what is to become of a row; `c0`, `c1`, … are the relation's columns. A wide table's has
// no `g`.

import { escapeIdentifier } from "pg";
import type { TupleForm } from "../../change/change-batch.ts";
import { sqlName } from "../../connection/sql-name.ts";
import type { PreparedTable } from "./prepared-table.ts";
import { sqlList } from "./target-name.ts";
import { equalSql } from "./target-table.ts";

/** Values of `g`; from 1 on: updates that leave some columns as they are, one number for each set of columns. */
export const stageGroup = { insert: -2, delete: -1, update: 0 } as const;

/**
 * Typed as the target is but for modifiers, which the assignment to the target then enforces: varchar(5) refuses what is too
 * long, where a cast would cut it.
 */
export function createStagingSql(table: PreparedTable): string {
  const columns = table.columns.map((column, i) => `c${i} ${column.plainType}`);
  const all = table.isWide ? columns : ["g int4", ...columns];
  return `create temporary table ${table.staging} (${all.join(", ")}) on commit delete rows`;
}

export function copyToStagingSql(table: PreparedTable, form: TupleForm): string {
  return `copy pg_temp.${table.staging} from stdin (format ${form})`;
}

export function copyToTargetSql(table: PreparedTable, form: TupleForm): string {
  const list = table.columns.length === 0 ? "" : ` (${sqlList(table.columnNames)})`;
  return `copy ${sqlName(table.target)}${list} from stdin (format ${form})`;
}

/** The condition that picks the rows of these groups, in statements where `s` is the staging table. */
export function inGroups(groups: readonly number[]): string {
  return `s.g in (${groups.join(", ")})`;
}

/** Rows whose keys are staged are deleted. */
export function deleteSql(table: PreparedTable, condition: string): string {
  return (
    `delete from ${table.ownRows} t using pg_temp.${table.staging} s ` +
    `where ${condition} and ${keyMatch(table)}`
  );
}

/** The statement by which staged rows replace those of the same key, but for the key and the `unchanged` columns. Null: nothing to set. */
export function updateSql(
  table: PreparedTable,
  unchanged: readonly number[],
): ((condition: string) => string) | null {
  const set = table.columns.flatMap((column, i) =>
    table.key.includes(i) || unchanged.includes(i) ? [] : [`${escapeIdentifier(column.name)} = s.c${i}`],
  );
  if (set.length === 0) return null;
  return (condition) =>
    `update ${table.ownRows} t set ${set.join(", ")} from pg_temp.${table.staging} s ` +
    `where ${condition} and ${keyMatch(table)}`;
}

/** Staged rows are inserted; with `ifMissing`, those whose key is not there. */
export function insertSql(table: PreparedTable, condition: string, ifMissing = false): string {
  const values = table.columns.map((_, i) => `s.c${i}`).join(", ");
  const missing = ifMissing
    ? ` and not exists (select from ${table.ownRows} t where ${keyMatch(table)})`
    : "";
  return (
    `insert into ${sqlName(table.target)} (${sqlList(table.columnNames)}) overriding system value ` +
    `select ${values} from pg_temp.${table.staging} s where ${condition}${missing}`
  );
}

function keyMatch(table: PreparedTable): string {
  return table.key
    .map((i) => {
      const { name, indexed } = table.columns[i]!;
      return equalSql(indexed, `t.${escapeIdentifier(name)}`, `s.c${i}`);
    })
    .join(" and ");
}
