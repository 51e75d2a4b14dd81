// Keeps what a run knows of its target tables, and makes them fit when a relation comes with a shape that is new.

import type { Client } from "pg";
import type { TupleForm } from "../../change/change-batch.ts";
import type { Lsn } from "../../change/lsn.ts";
import { qualifiedName, type Relation, type TableShape } from "../../change/relation.ts";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";
import { type PreparedTable, prepareTable } from "./prepared-table.ts";
import { addPrimaryKey, createTable, hasAllTypes, requireAllowed, schemaChanges } from "./table-schema.ts";
import { targetName } from "./target-name.ts";
import { readTargetTable, type TargetTable, takesBinary } from "./target-table.ts";

export class TableRegistry {
  readonly #shapes = new Map<number, TableShape>();
  readonly #copyForms = new Map<string, TupleForm>();
  #prepared = new Map<Relation, PreparedTable>();
  #stagingCount = 0;
  readonly #committedStaging = new Set<string>();

  constructor(
    private readonly config: PostgresSinkConfig,
    /** Where changes to a table begin that are not in its copy. */
    private readonly appliesFrom: (relation: Relation) => Lsn,
  ) {}

  /** Binary when every table's columns have the same types on both sides, else text. Notes it for each table's copy too. */
  async chooseForm(client: Client, tables: readonly TableShape[]): Promise<TupleForm> {
    let form: TupleForm = "binary";
    for (const shape of tables) {
      this.#shapes.set(shape.relation.id, shape);
      const own = await this.#formOf(client, shape);
      this.#copyForms.set(qualifiedName(shape.relation), own);
      if (own === "text") form = "text";
    }
    return form;
  }

  copyForm(table: TableShape): TupleForm {
    return this.#copyForms.get(qualifiedName(table.relation)) ?? "text";
  }

  /** The target of a relation's rows, made or changed in the open transaction where need be and allowed. */
  async prepared(client: Client, relation: Relation, form: TupleForm): Promise<PreparedTable> {
    const known = this.#prepared.get(relation);
    if (known) return known;
    const table = await this.#fit(client, relation);
    const staging = `millrace_stage_${++this.#stagingCount}`;
    const prepared = prepareTable(table, relation, form, staging, this.appliesFrom(relation));
    this.#prepared.set(relation, prepared);
    return prepared;
  }

  /** Tables may have been changed by somebody else, or by a transaction that was rolled back. */
  forgetShapes(): void {
    this.#prepared = new Map();
  }

  /** Staging tables outlive a transaction only if the one that made them was committed. */
  committed(staging: Iterable<string>): void {
    for (const name of staging) this.#committedStaging.add(name);
  }

  isCommitted(staging: string): boolean {
    return this.#committedStaging.has(staging);
  }

  async #formOf(client: Client, shape: TableShape): Promise<TupleForm> {
    if (!shape.relation.columns.every((column) => column.binarySafe)) return "text";
    const table = await readTargetTable(client, targetName(this.config, shape.relation));
    const fits = table
      ? takesBinary(table, shape.relation)
      : await hasAllTypes(client, shape.relation.columns);
    return fits ? "binary" : "text";
  }

  async #fit(client: Client, relation: Relation): Promise<TargetTable> {
    const target = targetName(this.config, relation);
    let table = await readTargetTable(client, target);
    if (!table) {
      const shape = this.#shapes.get(relation.id) ?? shapeOf(relation);
      await createTable(client, target, { ...shape, relation });
      await addPrimaryKey(client, target, shape);
      table = await readTargetTable(client, target);
    }
    if (!table) throw new Error("a table is not there after it was made");
    const changes = await schemaChanges(client, table, relation);
    if (changes.length === 0) return table;
    requireAllowed(this.config.migration_strategy, target, changes);
    for (const sql of changes) await client.query(sql);
    return (await readTargetTable(client, target)) ?? table;
  }
}

/** What can be told of a table that the stream announced and the run did not know. */
function shapeOf(relation: Relation): TableShape {
  const key = relation.key.map((i) => relation.columns[i]!.name);
  return {
    relation,
    primaryKey: key,
    notNull: key,
    isPartitioned: false,
    estimatedRows: 0,
    estimatedBytes: 0,
  };
}
