// The SQL of a target's staging table: a temporary table that takes a batch's rows by COPY, from which they are merged set-wise. Column `g`
// is the row's group; `c0`, `c1`, … are the relation's columns. The staging table of a wide table has no `g`.

import { escapeIdentifier } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlList } from "../schema/target-name.ts";
import { equalSql } from "../schema/target-table.ts";
import type { PreparedColumn, PreparedTable } from "./prepared-table.ts";

/** Values of `g`. From 1 on: updates with unchanged columns, one number for each set of such columns. */
export const stageGroup = { insert: -2, delete: -1, update: 0 } as const;

/**
 * Has the target's types without modifiers, which the assignment to the target enforces: varchar(5) then refuses a value that is too long. A
 * cast would truncate it.
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

/** The condition that selects the rows of these groups, where `s` is the staging table. */
export function inGroups(groups: readonly number[]): string {
  return `s.g in (${groups.join(", ")})`;
}

/** The staged rows that `condition` selects, in the order of the key's index: neighbours are on the same pages. */
function inKeyOrder(table: PreparedTable, condition: string): string {
  return `(select * from pg_temp.${table.staging} s where ${condition}${table.keyOrder}) s`;
}

/** Deletes target rows whose keys are staged. */
export function deleteSql(table: PreparedTable, condition: string): string {
  return `delete from ${table.ownRows} t using ${inKeyOrder(table, condition)} where ${keyMatch(table)}`;
}

/** As `deleteSql`, but spares rows whose keys are equal only by the index's collation: they are other rows of the source. */
export function deleteSameSql(table: PreparedTable, condition: string): string {
  return deleteSql(table, condition) + sameText(table, ({ indexed }) => indexed?.isLoose === true);
}

/** Appended to a condition on equal keys: these of their columns have the same text, too. */
export function sameText(table: PreparedTable, which: (column: PreparedColumn) => boolean): string {
  return table.key
    .filter((i) => which(table.columns[i]!))
    .map(
      (i) =>
        ` and t.${escapeIdentifier(table.columns[i]!.name)}::pg_catalog.text collate "C" = s.c${i}::pg_catalog.text`,
    )
    .join("");
}

/** Updates target rows from staged ones, except the key and the `unchanged` columns. Null: there is nothing to set. */
export function updateSql(
  table: PreparedTable,
  unchanged: readonly number[],
): ((condition: string) => string) | null {
  const set = table.columns.flatMap((column, i) =>
    table.key.includes(i) || table.fixed.includes(i) || unchanged.includes(i)
      ? []
      : [`${escapeIdentifier(column.name)} = s.c${i}`],
  );
  if (set.length === 0) return null;
  return (condition) =>
    `update ${table.ownRows} t set ${set.join(", ")} from ${inKeyOrder(table, condition)} ` +
    `where ${[keyMatch(table), ...fixedMatch(table)].join(" and ")}`;
}

/** Deletes target rows that UPDATE cannot change as staged: a GENERATED ALWAYS column differs. */
export function deleteFixedSql(table: PreparedTable, condition: string): string {
  return `${deleteSql(table, condition)} and ${isFixedOtherwise(table)}`;
}

/** As `saveExtrasSql`, of the rows that `deleteFixedSql` deletes. */
export function saveFixedSql(table: PreparedTable, condition: string): string {
  return `${saveExtrasSql(table, condition)} and ${isFixedOtherwise(table)}`;
}

function isFixedOtherwise(table: PreparedTable): string {
  return `not (${fixedMatch(table).join(" and ")})`;
}

function fixedMatch(table: PreparedTable): readonly string[] {
  return table.fixed.map((i) => `t.${escapeIdentifier(table.columns[i]!.name)} is not distinct from s.c${i}`);
}

/** Fills these columns of staged rows from the target's rows of the same keys. */
export function completeSql(
  table: PreparedTable,
  unchanged: readonly number[],
): (condition: string) => string {
  const set = unchanged.map((i) => `c${i} = t.${escapeIdentifier(table.columns[i]!.name)}`).join(", ");
  return (condition) =>
    `update pg_temp.${table.staging} s set ${set} from ${table.ownRows} t where ${condition} and ${keyMatch(table)}`;
}

/** Selects one row for each target row whose key is staged. */
export function findSql(table: PreparedTable, condition: string): string {
  return `select from ${table.ownRows} t, pg_temp.${table.staging} s where ${condition} and ${keyMatch(table)}`;
}

/** Inserts staged rows. `ifMissing`: only those whose key is not there. */
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
  return keyEquality(table, (i) => `t.${escapeIdentifier(table.columns[i]!.name)}`);
}

function keyEquality(table: PreparedTable, other: (i: number) => string): string {
  return table.key.map((i) => equalSql(table.columns[i]!.indexed, other(i), `s.c${i}`)).join(" and ");
}

/** A table for the values of columns that somebody has added at the sink, by key, while their rows are deleted and inserted again. */
const savedExtras = "pg_temp.millrace_kept";

export const dropExtrasSql = `drop table if exists ${savedExtras}`;

export function createExtrasSql(table: PreparedTable): string {
  return `create temporary table millrace_kept on commit drop as select ${keyAndExtras(table)} from ${table.ownRows} t with no data`;
}

export function saveExtrasSql(table: PreparedTable, condition: string): string {
  return (
    `insert into ${savedExtras} select ${keyAndExtras(table)} from ${table.ownRows} t, pg_temp.${table.staging} s ` +
    `where ${condition} and ${keyMatch(table)}`
  );
}

function keyAndExtras({ key, columns, extras }: PreparedTable): string {
  const keys = key.map((i) => `t.${escapeIdentifier(columns[i]!.name)} as k${i}`);
  return [...keys, ...extras.map((name, i) => `t.${escapeIdentifier(name)} as e${i}`)].join(", ");
}

/** Inserts staged rows: those that were deleted, with their saved columns; or with `isNew`, the others. */
export function insertWithExtrasSql(table: PreparedTable, condition: string, isNew: boolean): string {
  const match = keyEquality(table, (i) => `k.k${i}`);
  if (isNew)
    return insertSql(table, `${condition} and not exists (select from ${savedExtras} k where ${match})`);
  const values = [...table.columns.map((_, i) => `s.c${i}`), ...table.extras.map((_, i) => `k.e${i}`)].join(
    ", ",
  );
  return (
    `insert into ${sqlName(table.target)} (${sqlList([...table.columnNames, ...table.extras])}) overriding system value ` +
    `select ${values} from pg_temp.${table.staging} s, ${savedExtras} k where ${condition} and ${match}`
  );
}
