// Tables that are being copied beside the stream, and what would make such a copy worthless. While a table is here, each key that the
// stream touches is noted in a table of the target database, with the change: see touch-notes.ts.

import { qualifiedName, type Relation } from "../../change/relation.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { ShapeLedger, ShapeRecord } from "./shape-ledger.ts";
import type { TargetName } from "./target-name.ts";

export interface TouchedTable {
  readonly relation: Relation;
  /** Where its keys are noted: columns `k0`, `k1`, … in the order of `keyNames`; see beside-tables.ts. */
  readonly notes: TargetName;
  readonly keyNames: readonly string[];
  /** What it follows, but for its name. */
  shape: string;
  /** Why its copy has to begin anew; null: it has not. */
  spoiledBy: string | null;
}

export class TouchedKeys {
  readonly #tables = new Map<number, TouchedTable>();

  constructor(private readonly shapes: ShapeLedger) {}

  /** Between two batches: each change that is applied from here on is noted. */
  begin(relation: Relation, notes: TargetName): TouchedTable {
    const keyNames = relation.key.map((i) => relation.columns[i]!.name);
    const table = { relation, notes, keyNames, shape: followed(this.shapes.of(relation)), spoiledBy: null };
    // Its keys are noted in one place: what an earlier copy of it has come to by now is not known.
    this.spoil(relation.id, "was copied anew");
    this.#tables.set(relation.id, table);
    return table;
  }

  /** Nothing is noted of it any more. */
  end(table: TouchedTable): void {
    if (this.#tables.get(table.relation.id) === table) this.#tables.delete(table.relation.id);
  }

  /** The table whose keys are to be noted with changes of the relation; null: they are not. */
  of({ id }: Pick<Relation, "id">): TouchedTable | null {
    const table = this.#tables.get(id);
    return table && table.spoiledBy === null ? table : null;
  }

  /** It may be undone: then its copy begins anew for nothing. */
  spoil(tableId: number, reason: string): void {
    const table = this.#tables.get(tableId);
    if (table) table.spoiledBy ??= reason;
  }

  /** The relation's changes are about to be applied, and what its table at the sink follows is known. */
  entered(relation: Relation): void {
    const table = this.#tables.get(relation.id);
    // Another name alone does no harm: the copy looks for its table under the name that it began with.
    if (table && followed(this.shapes.of(relation)) !== table.shape) this.spoil(relation.id, "was altered");
  }

  /** Rows of the table were copied by their keys, and with them what it follows was noted anew. */
  followed(relation: Relation): void {
    const table = this.#tables.get(relation.id);
    if (table) table.shape = followed(this.shapes.of(relation));
  }
}

function followed(shape: ShapeRecord | null): string {
  return JSON.stringify([shape?.columns, shape?.key, shape?.displaced]);
}

/** `reason`: what the table did. */
export function besideSpoiled(relation: Relation, reason: string): MillraceError {
  return new MillraceError(
    "table_changed",
    `Table ${qualifiedName(relation)} ${reason} while it was copied beside the stream: the copy begins again.`,
  );
}
