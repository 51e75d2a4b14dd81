// Decides which changes of a relation are made to a target that has rows of other source tables too. Pure; table-migration.ts plans the changes.

import { qualifiedName, type Relation } from "../../../../change/relation.ts";
import { retypeOf } from "../../types/retype.ts";
import type { TargetTable } from "../target-table.ts";
import {
  type FollowedShape,
  type MigrationStrategy,
  planMigration,
  type TableChange,
} from "./table-migration.ts";

/**
 * Nothing of a shared target is dropped, and its key stays: if it refuses rows, the error says how to repair it. A column that the source has
 * dropped and added again gets its new type, and an added one gets no default: its rows alone have that. A copy brings both
 * (`ownValuesMissing`).
 */
export function changesOfShared(table: TargetTable, changes: readonly TableChange[]): readonly TableChange[] {
  const dropped = new Set(changes.flatMap((change) => (change.kind === "drop" ? [change.name] : [])));
  const taken = new Set(changes.flatMap((change) => (change.kind === "rename" ? [change.to] : [])));
  return changes.flatMap((change): readonly TableChange[] => {
    if (change.kind === "drop key" || change.kind === "add key") return [];
    if (change.kind === "drop") return taken.has(change.name) ? [change] : [];
    if (change.kind !== "add") return [change];
    const column = { ...change.column, addedValue: null };
    if (!dropped.has(column.name)) return [{ kind: "add", column }];
    const atSink = table.columns.find(({ name }) => name === column.name);
    return atSink === undefined || atSink.typeName === column.typeName ? [] : [retypeOf({ column, atSink })];
  });
}

/** Says why rows of the relation that are in a shared target lack values which no change brings; null: they do not. */
export function ownValuesMissing(
  table: TargetTable,
  known: FollowedShape | null,
  relation: Relation,
  strategy: MigrationStrategy,
): string | null {
  const isRemade = hasRemadeColumn(table, known, relation, strategy);
  if (!isRemade && !hasAddedValue(known, relation)) return null;
  const name = qualifiedName(relation);
  const why = isRemade
    ? `A column of ${name} was dropped and made again`
    : `Columns of ${name} were added with a default`;
  return (
    `${why}, and the table at the sink is shared: rows from before hold what they held. ` +
    "Create a Snapshot task for this table."
  );
}

/** Whether a column of the relation has the name of another column that the target followed, and should be a new column. */
function hasRemadeColumn(
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

/** Whether rows from before a column was added have a value in it. */
function hasAddedValue(known: FollowedShape | null, { columns }: Relation): boolean {
  const followed = new Set(known?.columns.map(({ number }) => number));
  return (
    known !== null &&
    columns.some(({ number, addedValue }) => number > 0 && addedValue !== null && !followed.has(number))
  );
}

/** Changes that must not be made to a shared target. Somebody makes them by hand once all its source tables have changed. */
export function changesOfOthers(changes: readonly TableChange[]): readonly TableChange[] {
  return changes.filter(({ kind }) => kind === "drop" || kind === "rename" || kind === "retype");
}
