// Decides what becomes of the changes that a relation calls for, where the table at the sink holds rows of other tables too. Pure;
// planning them is table-migration.ts's.

import type { Relation } from "../../../change/relation.ts";
import {
  type FollowedShape,
  type MigrationStrategy,
  planMigration,
  type TableChange,
} from "./table-migration.ts";
import type { TargetTable } from "./target-table.ts";

/**
 * Of a table that holds rows of others nothing goes, and the key stays: rows that it refuses then say what mends it. A column that
 * is dropped and made again is given its new type; what it holds for the relation's rows, a copy brings (`hasRemadeColumn`).
 */
export function changesOfShared(table: TargetTable, changes: readonly TableChange[]): readonly TableChange[] {
  const dropped = new Set(changes.flatMap((change) => (change.kind === "drop" ? [change.name] : [])));
  const taken = new Set(changes.flatMap((change) => (change.kind === "rename" ? [change.to] : [])));
  return changes.flatMap((change): readonly TableChange[] => {
    if (change.kind === "drop key" || change.kind === "add key") return [];
    if (change.kind === "drop") return taken.has(change.name) ? [change] : [];
    if (change.kind !== "add" || !dropped.has(change.column.name)) return [change];
    const { column } = change;
    const atSink = table.columns.find(({ name }) => name === column.name);
    return atSink?.typeName === column.typeName ? [] : [{ kind: "retype", column }];
  });
}

/** Whether a column of the relation has the name of another that the table has followed, and gets a place of its own. */
export function hasRemadeColumn(
  table: TargetTable,
  known: FollowedShape | null,
  relation: Relation,
  strategy: MigrationStrategy,
): boolean {
  const changes = planMigration(table, known, relation, strategy);
  return changes.some(
    (change) =>
      change.kind === "drop" &&
      changes.some((other) => other.kind === "add" && other.column.name === change.name),
  );
}

/** Changes that must not be made to a table which holds rows of others: to be made by hand, when all of them have changed. */
export function changesOfOthers(changes: readonly TableChange[]): readonly TableChange[] {
  return changes.filter(({ kind }) => kind === "drop" || kind === "rename" || kind === "retype");
}
