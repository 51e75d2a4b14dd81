// Compares rows of two tables in SQL: by their key, and byte by byte. Pure.

import { escapeIdentifier } from "pg";
import { isSystemColumn, keyNames, type Relation } from "../../../change/relation.ts";
import { equalSql, keyIndexOf, type TargetTable } from "../schema/target-table.ts";

export interface ComparedRows {
  readonly target: TargetTable;
  readonly relation: Relation;
  /** Two rows that differ only in system columns (the row's origin) count as equal. */
  readonly keepsOrigin: boolean;
}

/** The condition that two rows have the same key. `t` and `s` use the columns' names, `k` uses `k0`, `k1`, … */
export function matchSql(
  { target, relation }: Pick<ComparedRows, "target" | "relation">,
  one: "s" | "t",
  other: "s" | "t" | "k",
): string {
  const index = keyIndexOf(target, relation);
  const matches = keyNames(relation).map((name, i) => {
    const column = (of: string) => (of === "k" ? `k.k${i}` : `${of}.${escapeIdentifier(name)}`);
    return equalSql(
      index?.columns.find((indexed) => indexed.column === name),
      column(one),
      column(other),
    );
  });
  return matches.join(" and ");
}

/**
 * The condition that the copied row `s` equals the target's row `t` byte by byte: not every type has an equality, and some call different
 * values equal. System columns that are not compared must not be null.
 */
export function sameSql({ relation: { columns }, keepsOrigin }: ComparedRows): string {
  const own = columns.filter((column) => !keepsOrigin || !isSystemColumn(column));
  const row = (of: string) => `row(${own.map(({ name }) => `${of}.${escapeIdentifier(name)}`).join(", ")})`;
  const system = columns
    .filter((column) => keepsOrigin && isSystemColumn(column))
    .map(({ name }) => `t.${escapeIdentifier(name)}`);
  const hasOrigin = system.length === 0 ? "" : ` and num_nulls(${system.join(", ")}) = 0`;
  return `(pg_catalog.record_image_eq(${row("s")}, ${row("t")})${hasOrigin})`;
}
