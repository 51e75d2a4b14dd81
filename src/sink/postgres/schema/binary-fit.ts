// Whether a table at the sink takes the source's bytes as they are, now or after it was altered. Pure.

import type { Column, Relation } from "../../../change/relation.ts";
import type { TableChange } from "./table-migration.ts";
import type { TargetTable } from "./target-table.ts";

/**
 * Whether COPY BINARY may put the source's bytes into the table after these changes: what types are called does not matter, only
 * how their values lie. Columns that the changes make are left to the caller.
 */
export function takesBinary(
  table: TargetTable,
  relation: Relation,
  changes: readonly TableChange[] = [],
): boolean {
  const layouts = new Map(table.columns.map((column) => [column.name, column.binaryLayout]));
  const made = new Set<Column>();
  for (const change of changes) {
    if ("column" in change) made.add(change.column);
    else if (change.kind === "rename") layouts.set(change.to, layouts.get(change.from) ?? null);
  }
  return relation.columns.every(
    (column) =>
      made.has(column) || (column.binaryLayout !== null && layouts.get(column.name) === column.binaryLayout),
  );
}
