// Tables that are being copied beside the stream, and what would make such a copy worthless. While a table is here, each key that the
// stream touches is noted in a table of the target database, with the change: see touch-notes.ts.

import type { Client } from "pg";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { ShapeLedger, ShapeRecord } from "../bookkeeping/shape-ledger.ts";
import type { TargetName } from "../schema/target-name.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import { forgetBesideTables } from "./beside-tables.ts";

export interface TouchedTable {
  readonly tableId: number;
  /** Of the copy's tables; see beside-tables.ts. */
  readonly name: string;
  /** Where its keys are noted: columns `k0`, `k1`, … in the order of `keyNames`. */
  readonly notes: TargetName;
  readonly keyNames: readonly string[];
  /** Of a table that shares its target with others, what that is called: their changes touch its rows too. */
  readonly sharedAs: string | null;
  /** What it follows, but for its name. */
  shape: string;
  /** Somebody is making the copy: rows that the sink lacks come with it. */
  isTakenUp: boolean;
  /** Why its copy has to begin anew; null: it has not. */
  spoiledBy: string | null;
}

const none: readonly TouchedTable[] = [];

export class TouchedKeys {
  readonly #tables = new Map<number, TouchedTable>();

  constructor(
    private readonly connectorId: string,
    private readonly shapes: ShapeLedger,
    private readonly naming: Pick<TargetNaming, "sharedAs">,
  ) {}

  /** What the table with this OID follows. */
  shapeOf(tableId: number): string {
    return followed(this.shapes.of({ id: tableId }));
  }

  /** Between two batches: each change that is applied from here on is noted. */
  begin(touched: Omit<TouchedTable, "isTakenUp" | "spoiledBy">): TouchedTable {
    const table = { ...touched, isTakenUp: true, spoiledBy: null };
    // Its keys are noted in one place: what an earlier copy of it has come to by now is not known.
    this.spoil(table.tableId, "was copied anew");
    this.#tables.set(table.tableId, table);
    return table;
  }

  /** Nothing is noted of it any more. */
  end(table: TouchedTable): void {
    if (this.#tables.get(table.tableId) === table) this.#tables.delete(table.tableId);
  }

  /** The table whose keys are to be noted with changes of the relation; null: they are not. */
  of({ id }: Pick<Relation, "id">): TouchedTable | null {
    const table = this.#tables.get(id);
    return table && table.spoiledBy === null ? table : null;
  }

  /** As `of`, and those of others that share the relation's target. */
  allOf(relation: Relation): readonly TouchedTable[] {
    if (this.#tables.size === 0) return none;
    return this.#around(relation).filter(({ spoiledBy }) => spoiledBy === null);
  }

  /** A copy that is being made brings rows that the sink lacks. */
  brings(relation: Pick<Relation, "id">): boolean {
    return this.of(relation)?.isTakenUp === true;
  }

  /** It, or one that shares its target, is being copied beside the stream, or what was copied is kept. */
  has(relation: Relation): boolean {
    return this.#tables.size > 0 && this.#around(relation).length > 0;
  }

  #around(relation: Relation): readonly TouchedTable[] {
    const shared = this.naming.sharedAs(relation);
    return [...this.#tables.values()].filter(
      ({ tableId, sharedAs }) => tableId === relation.id || (shared !== null && sharedAs === shared),
    );
  }

  /** It may be undone: then its copy begins anew for nothing. */
  spoil(tableId: number, reason: string): void {
    const table = this.#tables.get(tableId);
    if (table) table.spoiledBy ??= reason;
  }

  /** As `spoil`, with what is about to be applied in the open transaction. */
  async spoilWith(client: Client, tableId: number, reason: string): Promise<void> {
    this.spoil(tableId, reason);
    const table = this.#tables.get(tableId);
    if (table) await forgetBesideTables(client, this.connectorId, table.name);
  }

  /** The relation's changes are about to be applied in the open transaction, and what its table at the sink follows is known. */
  async entered(client: Client, relation: Relation): Promise<void> {
    const table = this.#tables.get(relation.id);
    if (!table) return;
    const names = relation.key.map((i) => relation.columns[i]?.name);
    const isSame = this.shapeOf(relation.id) === table.shape && names.join() === table.keyNames.join();
    // Another name alone does no harm: the copy looks for its table under the name that it began with. What is applied of a table that
    // is spoiled is not noted: no run may take the copy for one that it can go on with.
    if (!isSame || table.spoiledBy !== null) await this.spoilWith(client, relation.id, "was altered");
  }

  /** Rows of the table were copied by their keys, and with them what it follows was noted anew. */
  followed(relation: Relation): void {
    const table = this.#tables.get(relation.id);
    if (table) table.shape = this.shapeOf(relation.id);
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
