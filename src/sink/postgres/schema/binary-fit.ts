// Decides whether a target takes the source's binary values as they are, now or after it was altered. Pure.

import type { Column, Relation } from "../../../change/relation.ts";
import type { TableChange } from "./migration/table-migration.ts";
import type { TargetTable } from "./target-table.ts";

/**
 * Whether COPY BINARY can write the source's bytes to the table after these changes. Only the binary layout of types matters, not their names.
 * The caller checks columns that the changes add.
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
