// What a sink notes of a table's copy, and whether a copy that was noted is still one: not when another table took its name,
// not when rows came or went without a change, and not when the connector carries by now what neither the copy nor the changes
// since had. Pure.

import { copyIdentity, type TableShape } from "./relation.ts";

/** Behind the identity, on a line of its own; the table's contents are on a third. */
type Covered = { readonly only: readonly string[] } | { readonly without: readonly string[] };

/** What is noted of a copy of `table`, and of a copy that is still one when the selection has changed. */
export function copyMark(table: TableShape): string {
  const identity = copyIdentity(table.relation);
  const covered = coveredBy(table);
  const lines = [identity, covered === null ? "" : JSON.stringify(covered), table.contents ?? ""];
  return lines.join("\n").trimEnd();
}

/**
 * Whether a copy with this mark, and the changes since, are all that `table` calls for. Fewer columns than before are: those
 * that are left out now stay as they are.
 */
export function isCopyOf(mark: string, table: TableShape): boolean {
  const [identity, covered, contents] = mark.split("\n");
  if ((contents ?? "") !== (table.contents ?? "")) return false;
  if (identity !== copyIdentity(table.relation) || table.coverage?.isUnpublished === true) return false;
  if (!covered) return true;
  const noted = JSON.parse(covered) as Covered;
  return table.relation.columns.every(({ name }) =>
    "only" in noted ? noted.only.includes(name) : !noted.without.includes(name),
  );
}

/** Whether a copy that was begun of `begun` is, when it is made, all that `table` calls for, which has taken its place since; absent: it is gone. */
export function isStillCopyOf(begun: TableShape, table: TableShape | undefined): boolean {
  return table === begun || (table !== undefined && isCopyOf(copyMark(begun), table));
}

/** Null: every column, also those that come later. */
function coveredBy({ coverage, relation }: TableShape): Covered | null {
  if (coverage?.isListed) return { only: relation.columns.map(({ name }) => name) };
  return coverage && coverage.excluded.length > 0 ? { without: coverage.excluded } : null;
}
