// Tables with an incremental copy, under way or interrupted, and what invalidates such a copy. While a table is here, touch-recorder.ts
// records each key that the stream touches.

import type { Client } from "pg";
import { keyNames, type Relation } from "../../../change/relation.ts";
import { forgetCopy } from "../bookkeeping/copy-records.ts";
import type { ShapeLedger, ShapeRecord } from "../bookkeeping/shape-ledger.ts";
import type { TargetName } from "../schema/target-name.ts";

export interface TouchedTable {
  readonly tableId: number;
  /** The table that takes its touched keys. */
  readonly keys: TargetName;
  /** The key's columns, in the order of `k0`, `k1`, … */
  readonly keyNames: readonly string[];
  /** The shape that the target follows, without its name. */
  readonly shape: string;
  /** Since when nobody goes on with the copy, by the monotonic clock; null: it is being made now, and brings rows that the sink lacks. */
  idleSinceMs: number | null;
  /** Why the copy must begin again; null: it is valid. */
  invalidatedBy: string | null;
}

export class TouchedKeys {
  readonly #tables = new Map<number, TouchedTable>();

  constructor(
    private readonly connectorId: string,
    private readonly shapes: ShapeLedger,
  ) {}

  /** The shape that the target of the table with this OID follows. */
  shapeOf(tableId: number): string {
    return shapeText(this.shapes.of({ id: tableId }));
  }

  /** Call it between two batches: the keys of all changes from here on are recorded. */
  begin(table: Omit<TouchedTable, "idleSinceMs" | "invalidatedBy">): TouchedTable {
    const touched = { ...table, idleSinceMs: performance.now(), invalidatedBy: null };
    this.#tables.set(table.tableId, touched);
    return touched;
  }

  /** The table's keys are not recorded any more. */
  end(tableId: number): void {
    this.#tables.delete(tableId);
  }

  /** Of an incremental copy, under way or interrupted; null: the table has none. */
  get(tableId: number): TouchedTable | null {
    return this.#tables.get(tableId) ?? null;
  }

  /** Where to record the keys of the relation's changes; null: they need no record. */
  of({ id }: Pick<Relation, "id">): TouchedTable | null {
    const table = this.#tables.get(id);
    return table && table.invalidatedBy === null ? table : null;
  }

  /** Whether a copy under way will bring rows that the sink lacks. */
  willBring(relation: Pick<Relation, "id">): boolean {
    return this.of(relation)?.idleSinceMs === null;
  }

  /** In the open transaction, with the change that invalidates the copy. If that is rolled back, the copy begins again needlessly. */
  async invalidate(client: Client, tableId: number, reason: string): Promise<void> {
    const table = this.#tables.get(tableId);
    if (!table) return;
    table.invalidatedBy ??= reason;
    // Its keys are recorded no more, so that no run may resume it.
    await forgetCopy(client, this.connectorId, tableId);
  }

  /** In the open transaction, before the relation's changes are applied: invalidates the copy if the target was altered. */
  async checkShape(client: Client, relation: Relation): Promise<void> {
    const table = this.#tables.get(relation.id);
    if (!table) return;
    const isSame =
      this.shapeOf(relation.id) === table.shape && keyNames(relation).join() === table.keyNames.join();
    if (!isSame || table.invalidatedBy !== null) await this.invalidate(client, relation.id, "was altered");
  }
}

function shapeText(shape: ShapeRecord | null): string {
  return JSON.stringify([shape?.columns, shape?.key, shape?.displaced]);
}
