// Tables whose key the stream does not tell: under REPLICA IDENTITY FULL only the catalog says whether there is one, and so
// whether a row gets a hash in its place. What the catalog said last is kept here, and what to do when it says otherwise.

import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { SourceNotes } from "../../source-notes.ts";

/**
 * The table's shape among `tables`. The first time that one is not known the run begins again, with a new look at the catalog;
 * undefined: it was not there then either, and is gone.
 *
 * Throws `table_changed`.
 */
export function shapeOrLook(
  tables: readonly TableShape[],
  oid: number,
  notes: SourceNotes,
): TableShape | undefined {
  const shape = tables.find(({ relation }) => relation.id === oid);
  const note = `unknown table ${oid}`;
  const wasUnknown = notes.get(note) !== undefined;
  if (shape || wasUnknown) {
    notes.set(note, null);
    return shape;
  }
  notes.set(note, "looked for");
  throw new MillraceError("table_changed", "A table has come that the catalog has to tell more of.");
}

/** A stream goes on with the keys that it began with. Throws `table_changed` when a table has got one, or lost it. */
export function requireSameKeys(before: readonly TableShape[], after: readonly TableShape[]): void {
  const known = new Map(before.map(({ relation }) => [relation.id, relation]));
  for (const { relation } of after) {
    const old = known.get(relation.id);
    const isTold = relation.replicaIdentity !== "full";
    if (!old || isTold || old.isKeyedByHash === relation.isKeyedByHash) continue;
    throw new MillraceError(
      "table_changed",
      `Table ${qualifiedName(relation)} has got a key, or lost it: the run begins again.`,
    );
  }
}
