// The targets as the run last read them from the sink's catalog: which exist, in which form rows can be copied into each, and in which order.
// table-registry.ts alters them.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import { type Column, qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { ShapeLedger, ShapeRecord } from "../bookkeeping/shape-ledger.ts";
import { takesBinary } from "./binary-fit.ts";
import { planMigration } from "./migration/table-migration.ts";
import { rankByReferences } from "./table-order.ts";
import { columnsThatFit, createSchemas } from "./table-schema.ts";
import type { TargetNaming } from "./target-naming.ts";
import { readTargetTables, type TargetTable } from "./target-table.ts";

export interface Computing {
  readonly shape: TableShape;
  readonly target: TargetTable;
}

export class TargetCatalog {
  /** The source's tables, by OID at the source. */
  readonly #shapes = new Map<number, TableShape>();
  /** By OID at the sink. Empty if no foreign key is in force. */
  #ranks: ReadonlyMap<number, number> = new Map();
  /** From OIDs at the source to OIDs at the sink. */
  readonly #targetOf = new Map<number, number>();
  #firing: string | null = null;
  readonly #copyForms = new Map<string, TupleForm>();
  readonly #missing = new Set<string>();
  #computing: readonly Computing[] = [];

  constructor(
    private readonly naming: TargetNaming,
    private readonly strategy: PostgresSinkConfig["migration_strategy"],
    private readonly shapes: ShapeLedger,
  ) {}

  /** The source's table as of the last refresh; null: there was none. */
  shapeOf(id: number): TableShape | null {
    return this.#shapes.get(id) ?? null;
  }

  /** The shape that the table's target follows. Null: nothing is known. */
  shapeToFollow(relation: Relation): ShapeRecord | null {
    return this.shapes.of(relation) ?? this.#ofFormer(relation);
  }

  /**
   * The shape that the target of the relation's name follows, into which a copy of it goes. Null: it is another table's, or nothing is known.
   */
  shapeToCopyInto(relation: Relation): ShapeRecord | null {
    const own = this.shapes.of(relation);
    const isThere = own !== null && qualifiedName(own) === qualifiedName(relation);
    return isThere ? own : this.#ofFormer(relation);
  }

  /**
   * A table that was made, or got its name, in the place of one that was dropped at the source gets the target of that one, and follows the
   * types of its columns by their names. So does each table where the connector has begun anew.
   */
  #ofFormer(relation: Relation): ShapeRecord | null {
    const named = this.shapes.named(relation);
    const isGone = named !== null && named.tableId !== relation.id && this.shapeOf(named.tableId) === null;
    const former = isGone ? named : named === null ? this.shapes.former(relation) : null;
    if (former === null || this.naming.isShared(relation)) return null;
    const columns = former.columns.flatMap((before) => {
      const same = relation.columns.find(({ name }) => name === before.name);
      return same && !before.isKept ? [{ ...before, number: same.number }] : [];
    });
    return { ...former, tableId: relation.id, columns, key: null, displaced: null };
  }

  /** A target's rank in the order of foreign keys. */
  rankOf({ oid }: Pick<TargetTable, "oid">): number {
    return this.#ranks.get(oid) ?? 0;
  }

  /**
   * Reads the targets of all tables. Returns binary if all columns have the same types on both sides, otherwise text. Throws
   * `sink_schema_mismatch` if two tables would be written to one target.
   */
  async refresh(client: Client, tables: readonly TableShape[]): Promise<TupleForm> {
    this.naming.claim(tables);
    await createSchemas(client, new Set(tables.map((shape) => this.naming.target(shape.relation).schema)));
    this.#missing.clear();
    this.#shapes.clear();
    for (const shape of tables) this.#shapes.set(shape.relation.id, shape);
    // A renamed table's target has its old name until the stream announces the new one.
    const current = tables.map(({ relation }) => this.naming.target(this.shapes.of(relation) ?? relation));
    const targets = await readTargetTables(client, current);
    this.#ranks = rankByReferences(targets.filter((target) => target !== null));
    this.#firing = firingText(targets);
    this.#targetOf.clear();
    this.#computing = tables.flatMap((shape, i) => {
      const target = targets[i];
      const isAny = target?.columns.some(({ generated }) => generated) || shape.generated !== undefined;
      return target && isAny ? [{ shape, target }] : [];
    });
    const made = tables.map(({ relation }, i) => this.#columnsToMake(relation, targets[i] ?? null));
    const fitting = await columnsThatFit(client, made.flat());
    let form: TupleForm = "binary";
    for (const [i, { relation }] of tables.entries()) {
      if (!targets[i]) this.#missing.add(qualifiedName(relation));
      else this.#targetOf.set(relation.id, targets[i].oid);
      const isBinary =
        this.#takesBytes(relation, targets[i] ?? null) && made[i]!.every((c) => fitting.has(c));
      // The target of its new name may be another table with other types.
      const isCopiedElsewhere = this.#isBehind(relation);
      this.#copyForms.set(qualifiedName(relation), isBinary && !isCopiedElsewhere ? "binary" : "text");
      if (!isBinary) form = "text";
    }
    return form;
  }

  /** Existing targets that have generated columns, or are to get some, as of the last refresh. */
  get computing(): readonly Computing[] {
    return this.#computing;
  }

  /** Describes the triggers and rules that the sink's sessions fire; null: none. */
  get firing(): string | null {
    return this.#firing;
  }

  /** The table's target still has another name. */
  #isBehind(relation: Relation): boolean {
    const shape = this.shapes.of(relation);
    return shape !== null && qualifiedName(shape) !== qualifiedName(relation);
  }

  /** Whether the table's target existed at the last refresh. */
  isThere(relation: Relation): boolean {
    return !this.#missing.has(qualifiedName(relation));
  }

  copyForm(table: TableShape): TupleForm {
    return this.#copyForms.get(qualifiedName(table.relation)) ?? "text";
  }

  /** The tables in the order in which foreign keys and shared targets allow their copies; null: any order. */
  inOrder(tables: readonly TableShape[]): readonly TableShape[] | null {
    if (this.#ranks.size === 0 && !this.naming.hasShared) return null;
    const rank = ({ relation }: TableShape) =>
      this.#ranks.get(this.#targetOf.get(relation.id) ?? Number.NaN) ?? 0;
    return tables.toSorted((a, b) => rank(a) - rank(b));
  }

  /** Columns that will be created at the sink, with the table or by a migration. */
  #columnsToMake(relation: Relation, table: TargetTable | null): readonly Column[] {
    if (!table) return relation.columns;
    return this.#changes(relation, table).flatMap((change) => ("column" in change ? [change.column] : []));
  }

  /** Whether existing columns take the source's binary values once the target follows the shape. */
  #takesBytes(relation: Relation, table: TargetTable | null): boolean {
    if (relation.columns.some((column) => column.binaryLayout === null)) return false;
    return table === null || takesBinary(table, relation, this.#changes(relation, table));
  }

  #changes(relation: Relation, table: TargetTable): ReturnType<typeof planMigration> {
    return planMigration(table, this.shapeToFollow(relation), relation, this.strategy);
  }
}

/** How many tables the warning names. */
const shownTables = 10;

function firingText(targets: readonly (TargetTable | null)[]): string | null {
  const firing = targets.filter((table) => table !== null && table.firing.length > 0).map((table) => table!);
  if (firing.length === 0) return null;
  const shown = firing
    .slice(0, shownTables)
    .map(({ target, firing: names }) => `${qualifiedName(target)} (${names.join(", ")})`);
  const more = firing.length > shownTables ? ` and ${firing.length - shownTables} other tables` : "";
  return (
    `Triggers and rules at the sink fire for what is written to ${shown.join(", ")}${more}: the source's own have done their work ` +
    "already, and rows may become others than the source's."
  );
}
