// Keeps what a run knows of its target tables, and makes them fit when a relation comes with a shape that is new.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { type PreparedTable, prepareTable } from "../apply/prepared-table.ts";
import type { CopyLedger } from "../bookkeeping/copy-ledger.ts";
import {
  hasColumnFromBefore,
  isFollowed,
  isRecorded,
  type ShapeLedger,
  type ShapeRecord,
} from "../bookkeeping/shape-ledger.ts";
import { holdsOldLabels } from "../types/old-labels.ts";
import type { TypeMaker } from "../types/type-maker.ts";
import { announcedShape } from "./announced-shape.ts";
import { inOrder } from "./key-migration.ts";
import { checkMigrations } from "./migration-check.ts";
import type { MigrationRefused } from "./migration-refused.ts";
import { changesFromBefore, columnsGuessed, isAsFollowed, isKnownToFollow } from "./shape-order.ts";
import { hasRemadeColumn } from "./shared-migration.ts";
import { areRowsUnfit, dropNotNull, fitTable } from "./table-fit.ts";
import { hasLostColumn } from "./table-migration.ts";
import { TableRenamer } from "./table-rename.ts";
import { addKey, addKeyOf, createTable } from "./table-schema.ts";
import { TargetLook } from "./target-look.ts";
import type { TargetName } from "./target-name.ts";
import type { TargetNaming } from "./target-naming.ts";
import { readTargetTable, type TargetTable, tableMissing } from "./target-table.ts";

export class TableRegistry {
  readonly #look: TargetLook;
  #prepared = new Map<Relation, PreparedTable>();
  #altered: Relation | null = null;
  #isLookDue = false;
  readonly #renamer: TableRenamer;
  /** Numbers of columns that turned out to take null at the source, by table. */
  readonly #nullable = new Map<number, Set<number>>();
  /** Names of staging tables, by target and columns: rows of the same shape use the same one. */
  readonly #staging = new Map<string, string>();

  constructor(
    private readonly config: PostgresSinkConfig,
    private readonly naming: TargetNaming,
    private readonly ledger: CopyLedger,
    private readonly shapes: ShapeLedger,
    private readonly types: TypeMaker,
    private readonly warn: (reason: string) => void,
  ) {
    this.#look = new TargetLook(naming, config.migration_strategy, shapes);
    this.#renamer = new TableRenamer(
      config.migration_strategy,
      naming,
      ledger,
      shapes,
      (id) => this.#look.shapeOf(id) !== null,
      (id) => this.#forgetTable(id),
    );
  }

  /** See `TargetLook.look`. What the tables need of types is made first; where their labels are in doubt, a copy brings them. */
  async look(client: Client, tables: readonly TableShape[]): Promise<TupleForm> {
    const relations = tables.map(({ relation }) => relation);
    await this.types.look(client, relations, async (types) => {
      for (const relation of relations) {
        const table = await readTargetTable(client, this.naming.target(this.shapes.of(relation) ?? relation));
        if (table && holdsOldLabels(table, relation, types)) await this.ledger.voidOf(client, relation);
      }
    });
    return await this.#look.look(client, tables);
  }

  /** Under the names that they have at the sink, and those that they are to have. */
  targetsOf(tables: readonly TableShape[]): readonly TargetName[] {
    const targets = tables.flatMap(({ relation }) =>
      [this.shapes.of(relation) ?? relation, relation].map((table) => this.naming.target(table)),
    );
    return [...new Map(targets.map((target) => [sqlName(target), target])).values()];
  }

  /** See `TargetLook.firing`. */
  get firing(): string | null {
    return this.#look.firing;
  }

  /** Whether the table's target was there at the last look. */
  isThere(relation: Relation): boolean {
    return this.#look.isThere(relation);
  }

  /** See `TargetLook.sourcesOf`. */
  sourcesOf(oids: readonly number[]): readonly number[] {
    return this.#look.sourcesOf(oids);
  }

  copyForm(table: TableShape): TupleForm {
    return this.#look.copyForm(table);
  }

  inOrder(tables: readonly TableShape[]): readonly TableShape[] | null {
    return this.#look.inOrder(tables);
  }

  /** Tables whose targets follow another shape, or none that is known. */
  behind(tables: readonly TableShape[]): readonly TableShape[] {
    return tables.filter(({ relation }) => !isFollowed(this.shapes.of(relation), relation));
  }

  /**
   * The target of a relation's rows, made or changed in the open transaction where need be and allowed. `at`: the commit record
   * of the first of these rows. Throws `table_changed` when the table has followed a later shape already: by a copy that these
   * rows were to be added to once more; or when the sink cannot follow.
   */
  async prepared(client: Client, relation: Relation, form: TupleForm, at: Lsn): Promise<PreparedTable> {
    const known = this.#prepared.get(relation);
    if (known) return known;
    const shape = this.shapes.of(relation);
    if (shape && !this.#isAsFollowed(shape, relation)) this.#requireOrder(shape, relation, at);
    if (shape && qualifiedName(shape) !== qualifiedName(relation)) {
      const isRenamed = !this.naming.isShared(shape) && (await this.#renamer.follow(client, shape, relation));
      if (!isRenamed && this.ledger.holds(relation)) throw this.#copyAgain(relation);
    }
    await this.types.make(client, relation);
    const target = this.naming.target(relation);
    const table = await this.#fit(client, target, relation, at);
    const staging = this.#stagingName(target, relation);
    const rank = this.#look.rankOf(table);
    const isShared = this.naming.isShared(relation);
    const copy = this.ledger.stateOf(relation);
    const prepared = prepareTable(table, relation, form, { staging, copy, rank, isShared });
    this.#prepared.set(relation, prepared);
    const last = this.#look.shapeOf(relation.id)?.relation;
    if (last && !isFollowed(this.shapes.of(relation), last)) this.#isLookDue = true;
    return prepared;
  }

  /**
   * Whether the table has followed a later shape by a copy, and holds rows of others: it cannot be copied anew in place of these
   * changes. `at`: their commit record.
   */
  isSuperseded(relation: Relation, at: Lsn): boolean {
    const shape = this.shapes.of(relation);
    if (!shape || at >= shape.since || !this.naming.isShared(relation)) return false;
    return !this.#isAsFollowed(shape, relation);
  }

  /**
   * Before a table is copied: another that was called so before, and has another name by now, is not the one to copy into.
   * `followsName`: one that has its old name at the sink still is renamed, and copied into.
   */
  async makeRoom(client: Client, relation: Relation, followsName: boolean): Promise<void> {
    const shape = this.shapes.of(relation);
    const isBehind = shape !== null && qualifiedName(shape) !== qualifiedName(relation);
    const isFollowing = isBehind && followsName && !this.naming.isShared(shape);
    if (isFollowing) await this.#renamer.follow(client, shape, relation);
    else await this.#renamer.makeRoom(client, relation);
  }

  /**
   * Before a table that the stream has not told of yet is copied for a task: under its name there may be another's rows, and its
   * own under another name. In the open transaction. Throws `table_changed` when it cannot get its name.
   */
  async takeName(client: Client, relation: Relation): Promise<void> {
    const shape = this.shapes.of(relation);
    const isBehind = shape !== null && qualifiedName(shape) !== qualifiedName(relation);
    if (!isBehind) return await this.#renamer.makeRoom(client, relation);
    if (!this.naming.isShared(shape) && (await this.#renamer.follow(client, shape, relation))) return;
    throw new MillraceError(
      "table_changed",
      `Table ${qualifiedName(relation)} was ${qualifiedName(shape)} before, and the sink has yet to follow: its copy is tried again.`,
    );
  }

  /** Why each of the tables cannot take its relation's rows, as the sink is now; null: it can, or is not there. */
  async checkMigrations(
    client: Client,
    tables: readonly { readonly relation: Relation; readonly nullColumn: string | null }[],
  ): Promise<readonly (MigrationRefused | null)[]> {
    const asked = tables.map((table) => ({
      ...table,
      known: this.shapes.of(table.relation),
      isReplaced: this.ledger.isVoid(this.shapes.of(table.relation) ?? table.relation),
      isNameTaken: this.#renamer.occupantOf(table.relation) !== null,
    }));
    return await checkMigrations(client, this.config.migration_strategy, this.naming, asked);
  }

  #copyAgain(relation: Relation): MillraceError {
    this.#altered = relation;
    return new MillraceError(
      "table_changed",
      `Table ${qualifiedName(relation)} was altered or renamed, and the sink cannot follow: it is copied again.`,
    );
  }

  /**
   * Whether a table has followed a shape since the last look that was not the one of the look. It may be an older one: the look
   * found nothing behind when the shape's rows were still on their way, and nothing else tells of what came after it.
   */
  takeLookDue(): boolean {
    const isDue = this.#isLookDue;
    this.#isLookDue = false;
    return isDue;
  }

  /** The table that `prepared` has refused as altered meanwhile; null when it has not. */
  takeAltered(): Relation | null {
    const altered = this.#altered;
    this.#altered = null;
    return altered;
  }

  /**
   * From the next `prepared` on, the column at the sink takes null, whatever it is called when its turn comes. False: there is
   * no such column, or it was allowed before.
   */
  allowNull(relation: Relation | null, name: string): boolean {
    const { number = 0 } = relation?.columns.find((column) => column.name === name) ?? {};
    if (!relation || number === 0) return false;
    const allowed = this.#nullable.get(relation.id) ?? new Set();
    if (allowed.has(number)) return false;
    this.#nullable.set(relation.id, allowed.add(number));
    return true;
  }

  /** Tables may have been changed by somebody else, or by a transaction that was rolled back. */
  forgetShapes(): void {
    this.types.forget();
    this.#prepared = new Map();
  }

  /** It is another one at the sink by now. */
  #forgetTable(id: number): void {
    for (const relation of this.#prepared.keys()) if (relation.id === id) this.#prepared.delete(relation);
  }

  #stagingName(target: TargetName, relation: Relation): string {
    const shape = JSON.stringify([
      relation.id,
      target,
      relation.columns.map(({ name, typeName }) => [name, typeName]),
    ]);
    const name = this.#staging.get(shape) ?? `millrace_stage_${this.#staging.size + 1}`;
    this.#staging.set(shape, name);
    return name;
  }

  async #fit(client: Client, target: TargetName, relation: Relation, at: Lsn): Promise<TargetTable> {
    let table = await readTargetTable(client, target);
    if (!table) {
      if (this.ledger.holds(relation)) throw tableMissing(target);
      const shape = { ...(this.#look.shapeOf(relation.id) ?? announcedShape(relation)), relation };
      await createTable(client, target, shape);
      await addKeyOf(client, target, shape);
      table = await readTargetTable(client, target);
    }
    if (!table) throw new Error("a table is not there after it was made");
    const record = this.shapes.of(relation);
    // Its values are nowhere at the sink: a copy brings them.
    const isLost =
      hasLostColumn(table, record?.columns ?? [], relation) || hasColumnFromBefore(record, relation);
    if (isLost && this.ledger.holds(relation)) throw this.#copyAgain(relation);
    this.#requireOwnValues(table, record, relation);
    const isChanged = await this.#change(client, table, record, relation);
    const nullable = this.#nullable.get(relation.id);
    if (nullable) await dropNotNull(client, table, relation, nullable);
    const fitted = isChanged ? ((await readTargetTable(client, target)) ?? table) : table;
    if (!isRecorded(record, relation)) await this.shapes.record(client, relation, at, fitted);
    return fitted;
  }

  /** A column of a table that others share is not dropped to be made again: a copy brings what its rows have there by now. */
  #requireOwnValues(table: TargetTable, shape: ShapeRecord | null, relation: Relation): void {
    if (!this.naming.isShared(relation)) return;
    if (!hasRemadeColumn(table, shape, relation, this.config.migration_strategy)) return;
    if (this.ledger.holds(relation)) throw this.#copyAgain(relation);
    this.warn(
      `A column of ${qualifiedName(relation)} was dropped and made again, and the table at the sink is shared: rows from before ` +
        "hold what they held. Create a Snapshot task for this table.",
    );
  }

  #isAsFollowed(shape: ShapeRecord, relation: Relation): boolean {
    return isAsFollowed(shape, relation, this.#look.shapeOf(relation.id)?.relation ?? null);
  }

  /** That the relation's shape is a later one than the table's, and is known. A copy brings what is not. */
  #requireOrder(shape: ShapeRecord, relation: Relation, at: Lsn): void {
    if (this.ledger.holds(relation) && !isKnownToFollow(shape, relation, at)) throw this.#copyAgain(relation);
    if (at < shape.since) throw changesFromBefore(relation);
    if (relation.isGuess) this.warn(columnsGuessed(relation));
  }

  async #change(
    client: Client,
    table: TargetTable,
    followed: ShapeRecord | null,
    relation: Relation,
  ): Promise<boolean> {
    try {
      const isShared = this.naming.isShared(relation);
      const { migration_strategy: strategy } = this.config;
      const fitted = await fitTable(client, strategy, table, followed, relation, { isShared });
      if (fitted.key) {
        const { primaryKey = [] } = this.#look.shapeOf(relation.id) ?? {};
        await addKey(client, table.target, inOrder(fitted.key, primaryKey));
      }
      return fitted.isChanged;
    } catch (error) {
      // The source has converted them in a way of its own: a copy brings what came of it.
      if (areRowsUnfit(error) && this.ledger.holds(relation)) throw this.#copyAgain(relation);
      throw error;
    }
  }
}
