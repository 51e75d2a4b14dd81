// The staging table of one target table: a temporary table that takes a batch's rows by COPY, from which they are
// merged set-wise. Column `g` says what is to become of a row; `c0`, `c1`, … are the relation's columns. A wide table's has
// no `g`.

import { escapeIdentifier } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlList } from "../schema/target-name.ts";
import { equalSql } from "../schema/target-table.ts";
import type { PreparedTable } from "./prepared-table.ts";

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

/** The staged rows that `condition` picks, in the order of the index that finds theirs: neighbours lie on the same pages. */
function inKeyOrder(table: PreparedTable, condition: string): string {
  return `(select * from pg_temp.${table.staging} s where ${condition}${table.keyOrder}) s`;
}

/** Rows whose keys are staged are deleted. */
export function deleteSql(table: PreparedTable, condition: string): string {
  return `delete from ${table.ownRows} t using ${inKeyOrder(table, condition)} where ${keyMatch(table)}`;
}

/** As `deleteSql`, but for rows whose keys are the staged ones for the index alone: they are other rows of the source's. */
export function deleteSameSql(table: PreparedTable, condition: string): string {
  const same = table.key.flatMap((i) => {
    const { name, indexed } = table.columns[i]!;
    return indexed?.isLoose
      ? [` and t.${escapeIdentifier(name)}::pg_catalog.text collate "C" = s.c${i}::pg_catalog.text`]
      : [];
  });
  return deleteSql(table, condition) + same.join("");
}

/** The statement by which staged rows replace those of the same key, but for the key and the `unchanged` columns. Null: nothing to set. */
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

/** Rows whose keys are staged, and that an UPDATE cannot make what is staged, are deleted. */
export function deleteFixedSql(table: PreparedTable, condition: string): string {
  return `${deleteSql(table, condition)} and not (${fixedMatch(table).join(" and ")})`;
}

function fixedMatch(table: PreparedTable): readonly string[] {
  return table.fixed.map((i) => `t.${escapeIdentifier(table.columns[i]!.name)} is not distinct from s.c${i}`);
}

/** Staged rows get the values of these columns that the target's rows of their keys have. */
export function completeSql(
  table: PreparedTable,
  unchanged: readonly number[],
): (condition: string) => string {
  const set = unchanged.map((i) => `c${i} = t.${escapeIdentifier(table.columns[i]!.name)}`).join(", ");
  return (condition) =>
    `update pg_temp.${table.staging} s set ${set} from ${table.ownRows} t where ${condition} and ${keyMatch(table)}`;
}

/** Gives a row for each that has a staged key. */
export function findSql(table: PreparedTable, condition: string): string {
  return `select from ${table.ownRows} t, pg_temp.${table.staging} s where ${condition} and ${keyMatch(table)}`;
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
  return keyEquality(table, (i) => `t.${escapeIdentifier(table.columns[i]!.name)}`);
}

function keyEquality(table: PreparedTable, other: (i: number) => string): string {
  return table.key.map((i) => equalSql(table.columns[i]!.indexed, other(i), `s.c${i}`)).join(" and ");
}

/** What rows that are taken away hold in columns that we know nothing of, by their key. */
const kept = "pg_temp.millrace_kept";

export const dropKeptSql = `drop table if exists ${kept}`;

export function createKeptSql(table: PreparedTable): string {
  return `create temporary table millrace_kept on commit drop as select ${keptColumns(table)} from ${table.ownRows} t with no data`;
}

export function keepSql(table: PreparedTable, condition: string): string {
  return (
    `insert into ${kept} select ${keptColumns(table)} from ${table.ownRows} t, pg_temp.${table.staging} s ` +
    `where ${condition} and ${keyMatch(table)}`
  );
}

function keptColumns({ key, columns, extras }: PreparedTable): string {
  const keys = key.map((i) => `t.${escapeIdentifier(columns[i]!.name)} as k${i}`);
  return [...keys, ...extras.map((name, i) => `t.${escapeIdentifier(name)} as e${i}`)].join(", ");
}

/** Staged rows are inserted: those that were taken away with what was kept of them, or, `isNew`, the others. */
export function insertKeptSql(table: PreparedTable, condition: string, isNew: boolean): string {
  const match = keyEquality(table, (i) => `k.k${i}`);
  if (isNew) return insertSql(table, `${condition} and not exists (select from ${kept} k where ${match})`);
  const values = [...table.columns.map((_, i) => `s.c${i}`), ...table.extras.map((_, i) => `k.e${i}`)].join(
    ", ",
  );
  return (
    `insert into ${sqlName(table.target)} (${sqlList([...table.columnNames, ...table.extras])}) overriding system value ` +
    `select ${values} from pg_temp.${table.staging} s, ${kept} k where ${condition} and ${match}`
  );
}
