// The SQL of an incremental copy's chunks. Rows that the target already has are skipped. The others are upserted, unless the stream has
// touched their keys. Pure.

import { escapeIdentifier } from "pg";
import { columnNames, keyNames } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlList, type TargetName } from "../schema/target-name.ts";
import type { HelperTables } from "./helper-tables.ts";
import { type ComparedRows, matchSql, sameSql } from "./row-match.ts";

export interface ChunkTarget extends ComparedRows {
  readonly tables: HelperTables;
}

/** Pages [from, to) of a table. */
export interface Pages {
  readonly from: number;
  readonly to: number;
}

/** Rows of `from` that are missing at the target or differ there. */
export function differingSql(chunk: ChunkTarget, from: string): string {
  const { target } = chunk;
  return (
    `select s.* from ${from} s left join ${target.ownRows} t on ${matchSql(chunk, "t", "s")} ` +
    `where t.tableoid is null or not ${sameSql(chunk)}`
  );
}

/** Records that the copy has brought these keys. */
export function recordSeenSql(chunk: ChunkTarget, from: string): string {
  const keys = chunk.relation.key.map((_, i) => `k${i}`).join(", ");
  const values = sqlList(keyNames(chunk.relation), "s.");
  return `insert into ${sqlName(chunk.tables.seen)} (${keys}) select ${values} from ${from} s on conflict do nothing`;
}

/** Updates rows that are there. Null: the table has no column beside its key. */
export function chunkUpdateSql(chunk: ChunkTarget, staging: TargetName, pages: Pages): string | null {
  const { target, relation } = chunk;
  const set = relation.columns
    .filter(({ name }) => !target.columns.some((column) => column.name === name && column.isFixed))
    .map(({ name }) => `${escapeIdentifier(name)} = s.${escapeIdentifier(name)}`);
  if (set.length === 0) return null;
  return (
    `update ${target.ownRows} t set ${set.join(", ")} from ${sqlName(staging)} s ` +
    `where ${matchSql(chunk, "t", "s")} and ${untouched(chunk, "s")}${within("s", pages)}`
  );
}

/** Inserts rows that are missing. */
export function chunkInsertSql(chunk: ChunkTarget, staging: TargetName, pages: Pages): string {
  const { target, relation } = chunk;
  const names = columnNames(relation);
  return (
    `insert into ${sqlName(target.target)} (${sqlList(names)}) overriding system value select ${sqlList(names, "s.")} from ${sqlName(staging)} s ` +
    `where not exists (select from ${target.ownRows} t where ${matchSql(chunk, "t", "s")}) and ${untouched(chunk, "s")}${within("s", pages)}`
  );
}

/** Deletes rows that no chunk has brought. `pages`: of the target; null: all. */
export function deleteUncopiedSql(chunk: ChunkTarget, pages: Pages | null): string {
  const isSeen = `exists (select from ${sqlName(chunk.tables.seen)} k where ${matchSql(chunk, "t", "k")})`;
  const part = pages === null ? "" : within("t", pages);
  return `delete from ${chunk.target.ownRows} t where not ${isSeen} and ${untouched(chunk, "t")}${part}`;
}

function untouched(chunk: ChunkTarget, of: "s" | "t"): string {
  return `not exists (select from ${sqlName(chunk.tables.touched)} k where ${matchSql(chunk, of, "k")})`;
}

function within(of: "s" | "t", { from, to }: Pages): string {
  return ` and ${of}.ctid >= '(${from},0)' and ${of}.ctid < '(${to},0)'`;
}
