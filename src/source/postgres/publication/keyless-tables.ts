// Handles tables whose key the stream does not contain. Under REPLICA IDENTITY FULL only the catalog says whether there
// is a key, and so whether a row gets a hash instead.

import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { SourceState } from "../../source-state.ts";

/**
 * The table's shape among `tables`; undefined: the table is gone, or a partition whose rows come as its root's. The first time that a table is
 * unknown, this throws `table_changed`, so that the next run reads the catalog again. One that is unknown even then stays so: it may be announced
 * in each run.
 */
export function findShape(
  tables: readonly TableShape[],
  oid: number,
  state: SourceState,
): TableShape | undefined {
  const shape = tables.find(({ relation }) => relation.id === oid);
  const key = `unknown table ${oid}`;
  if (shape) state.set(key, null);
  if (shape || state.get(key) !== undefined) return shape;
  state.set(key, "looked for");
  throw new MillraceError("table_changed", "A table has come that the catalog has to tell more of.");
}

/** A stream keeps the keys that it began with. Throws `table_changed` when a table has got a key, or lost it. */
export function requireSameKeys(before: readonly TableShape[], after: readonly TableShape[]): void {
  const known = new Map(before.map(({ relation }) => [relation.id, relation]));
  for (const { relation } of after) {
    const old = known.get(relation.id);
    const isInStream = relation.replicaIdentity !== "full";
    if (!old || isInStream || old.isKeyedByHash === relation.isKeyedByHash) continue;
    throw new MillraceError(
      "table_changed",
      `Table ${qualifiedName(relation)} has got a key, or lost it: the run begins again.`,
    );
  }
}
