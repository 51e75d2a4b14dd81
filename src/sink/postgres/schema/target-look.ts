// The run's last look at the target tables: which are there, in which form rows can be copied into each, in which order, and
// which tables of the source they were looked at for. Making them fit is the registry's.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import { type Column, qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { ShapeLedger } from "../bookkeeping/shape-ledger.ts";
import { rankByReferences } from "../copy/table-order.ts";
import { takesBinary } from "./binary-fit.ts";
import { planMigration } from "./table-migration.ts";
import { columnsThatFit, createSchemas } from "./table-schema.ts";
import type { TargetNaming } from "./target-naming.ts";
import { readTargetTables, type TargetTable } from "./target-table.ts";

export class TargetLook {
  /** By OID at the source. */
  readonly #shapes = new Map<number, TableShape>();
  /** By OID at the sink. Empty where no foreign key is in force. */
  #ranks: ReadonlyMap<number, number> = new Map();
  /** From OIDs at the source to OIDs at the sink. */
  readonly #targetOf = new Map<number, number>();
  #firing: string | null = null;
  readonly #copyForms = new Map<string, TupleForm>();
  readonly #missing = new Set<string>();

  constructor(
    private readonly naming: TargetNaming,
    private readonly strategy: PostgresSinkConfig["migration_strategy"],
    private readonly shapes: ShapeLedger,
  ) {}

  /** The source's table as it was then; null: there was none. */
  shapeOf(id: number): TableShape | null {
    return this.#shapes.get(id) ?? null;
  }

  /** Of a target among those that foreign keys order. */
  rankOf({ oid }: Pick<TargetTable, "oid">): number {
    return this.#ranks.get(oid) ?? 0;
  }

  /**
   * Looks at the targets of all tables. Returns binary when every table's columns have the same types on both sides, else
   * text. Throws `sink_schema_mismatch` when two tables would be written to one.
   */
  async look(client: Client, tables: readonly TableShape[]): Promise<TupleForm> {
    this.naming.claim(tables);
    await createSchemas(client, new Set(tables.map((shape) => this.naming.target(shape.relation).schema)));
    this.#missing.clear();
    this.#shapes.clear();
    for (const shape of tables) this.#shapes.set(shape.relation.id, shape);
    // Under the name that it had before, where the stream has yet to tell of the new one.
    const held = tables.map(({ relation }) => this.naming.target(this.shapes.of(relation) ?? relation));
    const targets = await readTargetTables(client, held);
    this.#ranks = rankByReferences(targets.filter((target) => target !== null));
    this.#firing = firingText(targets);
    this.#targetOf.clear();
    const made = tables.map(({ relation }, i) => this.#columnsToMake(relation, targets[i] ?? null));
    const fitting = await columnsThatFit(client, made.flat());
    let form: TupleForm = "binary";
    for (const [i, { relation }] of tables.entries()) {
      if (!targets[i]) this.#missing.add(qualifiedName(relation));
      else this.#targetOf.set(relation.id, targets[i].oid);
      const isBinary =
        this.#takesBytes(relation, targets[i] ?? null) && made[i]!.every((c) => fitting.has(c));
      // Under its name of now there may be another table, with columns of other types.
      const isCopiedElsewhere = this.#isBehind(relation);
      this.#copyForms.set(qualifiedName(relation), isBinary && !isCopiedElsewhere ? "binary" : "text");
      if (!isBinary) form = "text";
    }
    return form;
  }

  /** The source's tables whose targets are these, by OID on either side. */
  sourcesOf(oids: readonly number[]): readonly number[] {
    return [...this.#targetOf].flatMap(([id, oid]) => (oids.includes(oid) ? [id] : []));
  }

  /** Which triggers and rules the sink's sessions set off; null: none. */
  get firing(): string | null {
    return this.#firing;
  }

  /** The table has another name at the sink still. */
  #isBehind(relation: Relation): boolean {
    const shape = this.shapes.of(relation);
    return shape !== null && qualifiedName(shape) !== qualifiedName(relation);
  }

  /** Whether the table's target was there at the last look. */
  isThere(relation: Relation): boolean {
    return !this.#missing.has(qualifiedName(relation));
  }

  copyForm(table: TableShape): TupleForm {
    return this.#copyForms.get(qualifiedName(table.relation)) ?? "text";
  }

  /** In the order in which their rows can be put under the foreign keys that are in force, and into tables that they share; null: in any. */
  inOrder(tables: readonly TableShape[]): readonly TableShape[] | null {
    if (this.#ranks.size === 0 && !this.naming.hasShared) return null;
    const rank = ({ relation }: TableShape) =>
      this.#ranks.get(this.#targetOf.get(relation.id) ?? Number.NaN) ?? 0;
    return tables.toSorted((a, b) => rank(a) - rank(b));
  }

  /** Columns that are made at the sink, with the table or in following its shape. */
  #columnsToMake(relation: Relation, table: TargetTable | null): readonly Column[] {
    if (!table) return relation.columns;
    return this.#changes(relation, table).flatMap((change) => ("column" in change ? [change.column] : []));
  }

  /** Whether the columns that are there take the bytes as they lie, once the target has followed the shape. */
  #takesBytes(relation: Relation, table: TargetTable | null): boolean {
    if (relation.columns.some((column) => column.binaryLayout === null)) return false;
    return table === null || takesBinary(table, relation, this.#changes(relation, table));
  }

  #changes(relation: Relation, table: TargetTable): ReturnType<typeof planMigration> {
    return planMigration(table, this.shapes.of(relation), relation, this.strategy);
  }
}

/** As many tables as are told of. */
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
