// Columns whose values at the sink are not the source's, as somebody has altered the table there. Pure.

import type { Relation } from "../../../../change/relation.ts";
import type { TargetTable } from "../target-table.ts";
import type { FollowedColumn } from "./table-migration.ts";

/** Whether somebody has dropped or renamed a followed column of the relation at the sink. */
export function hasLostColumn(
  table: TargetTable,
  known: readonly FollowedColumn[],
  relation: Relation,
): boolean {
  const names = new Set(table.columns.map(({ name }) => name));
  return relation.columns.some(({ number, name }) => {
    const before = known.find((column) => number > 0 && column.number === number && !column.isKept);
    return before !== undefined && !names.has(before.name) && !names.has(name);
  });
}

/**
 * Whether a column of somebody's own at the sink has the name that one of the source's has got: by being added, or by a rename that the sink cannot
 * follow. Its values are not those of the source's rows.
 */
export function hasColumnOfOthers(
  table: TargetTable,
  known: readonly FollowedColumn[],
  relation: Relation,
): boolean {
  const names = new Set(table.columns.map(({ name }) => name));
  const isOthers = (wanted: string) =>
    table.columns.some(({ name, generated }) => name === wanted && !generated) &&
    !known.some(({ name }) => name === wanted);
  return relation.columns.some(({ number, name }) => {
    const before = known.find((column) => column.number === number && !column.isKept);
    // Without its old name, somebody has renamed it already.
    const isNew = before === undefined || names.has(before.name);
    return number > 0 && isNew && isOthers(name);
  });
}
