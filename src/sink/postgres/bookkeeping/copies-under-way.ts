// First copies that are made incrementally. Changes of their tables are applied meanwhile, though the tables have no valid copy yet.

import { isStillCopyOf } from "../../../change/copy-fingerprint.ts";
import { qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { copyInvalidated } from "../../copy-invalidated.ts";

export class CopiesUnderWay {
  /** The tables as they were when the copy began, by OID at the source. */
  readonly #tables = new Map<number, TableShape>();
  /** OIDs of tables whose copies are no longer valid. */
  readonly #invalid = new Set<number>();

  begin(table: TableShape): void {
    this.#tables.set(table.relation.id, table);
    this.#invalid.delete(table.relation.id);
  }

  end(tableId: number): void {
    this.#tables.delete(tableId);
    this.#invalid.delete(tableId);
  }

  forget(): void {
    this.#tables.clear();
    this.#invalid.clear();
  }

  has({ id }: Pick<Relation, "id">): boolean {
    return this.#tables.has(id);
  }

  /** Whether another table of the relation's name is being copied. */
  isNameTaken(relation: Pick<Relation, "id" | "schema" | "name">): boolean {
    if (this.#tables.size === 0) return false;
    const name = qualifiedName(relation);
    return this.#tables
      .values()
      .some(({ relation: other }) => other.id !== relation.id && qualifiedName(other) === name);
  }

  /** Invalidates copies whose tables are no longer selected, are other tables by now, or have missed changes. */
  check(tables: readonly TableShape[]): void {
    const byId = new Map(tables.map((table) => [table.relation.id, table]));
    for (const [id, begun] of this.#tables) if (!isStillCopyOf(begun, byId.get(id))) this.#invalid.add(id);
  }

  /** Throws `table_changed` if the copy is not valid. */
  requireValid(relation: Relation): void {
    if (this.#invalid.has(relation.id))
      throw copyInvalidated(relation, "was left out, or was not what it had been,");
  }
}
