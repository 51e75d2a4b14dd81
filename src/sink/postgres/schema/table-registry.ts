// What a run knows of its targets. Prepares the target of each relation, and alters it when a relation has a new shape.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { type PreparedTable, prepareTable } from "../apply/prepared-table.ts";
import type { CopyLedger } from "../bookkeeping/copy-ledger.ts";
import type { AskedTable } from "../bookkeeping/set-aside-tables.ts";
import {
  hasColumnFromBefore,
  isFollowed,
  isRecorded,
  type ShapeLedger,
  type ShapeRecord,
} from "../bookkeeping/shape-ledger.ts";
import { ComputedTargets } from "../generated/computed-targets.ts";
import type { MigrationRefused } from "../refusals/migration-refused.ts";
import { type Outdate, withOldLabels } from "../types/outdated-labels.ts";
import type { TypeMaker } from "../types/type-maker.ts";
import { announcedShape } from "./announced-shape.ts";
import { hasColumnOfOthers, hasLostColumn } from "./migration/columns-of-others.ts";
import { inOrder } from "./migration/key-migration.ts";
import { type CheckedTable, checkMigrations } from "./migration/migration-check.ts";
import { conversionRefused } from "./migration/migration-sql.ts";
import { ownValuesMissing } from "./migration/shared-migration.ts";
import {
  areRowsUnfit,
  dropNotNull,
  emptyingSql,
  fitTable,
  isConversionRefused,
} from "./migration/table-fit.ts";
import { changesFromBefore, columnsGuessed, hasAllOf, isAsFollowed, isKnownToFollow } from "./shape-order.ts";
import { StagingNames } from "./staging-names.ts";
import { TableRenamer } from "./table-rename.ts";
import { addKey, addKeyOf, createTable } from "./table-schema.ts";
import { TargetCatalog } from "./target-catalog.ts";
import type { TargetName } from "./target-name.ts";
import type { TargetNaming } from "./target-naming.ts";
import { readTargetTable, type TargetTable, tableMissing } from "./target-table.ts";

export class TableRegistry {
  readonly computed: ComputedTargets;
  readonly catalog: TargetCatalog;
  #prepared = new Map<Relation, PreparedTable>();
  #altered: Relation | null = null;
  #isRefreshDue = false;
  readonly renamer: TableRenamer;
  /** Numbers of columns in which the source has sent null, by table. */
  readonly #nullable = new Map<number, Set<number>>();
  readonly #staging = new StagingNames();

  constructor(
    private readonly config: PostgresSinkConfig,
    private readonly naming: TargetNaming,
    private readonly ledger: CopyLedger,
    private readonly shapes: ShapeLedger,
    private readonly types: TypeMaker,
    private readonly makesCopies: boolean,
    private readonly warn: (reason: string) => void,
    warnOfComputed: (reason: string | null) => void,
  ) {
    const { migration_strategy: strategy } = config;
    this.catalog = new TargetCatalog(naming, strategy, shapes);
    this.computed = new ComputedTargets(strategy, naming, shapes, this.catalog, warnOfComputed);
    this.renamer = new TableRenamer(
      strategy,
      naming,
      ledger,
      shapes,
      (id) => this.catalog.shapeOf(id) !== null,
      (id) => this.#forgetTable(id),
    );
  }

  /** See `TargetCatalog.refresh`. Types are created first. `outdate` gets the tables whose enum labels may have been renamed. */
  async refresh(client: Client, tables: readonly TableShape[], outdate: Outdate): Promise<TupleForm> {
    const relations = tables.map(({ relation }) => relation);
    const targetOf = (relation: Relation) => this.naming.target(this.shapes.of(relation) ?? relation);
    await this.types.refresh(client, relations, async (types) =>
      outdate(await withOldLabels(client, relations, types, targetOf)),
    );
    return await this.catalog.refresh(client, tables);
  }

  /** The targets' names at the sink now, and those that they are to get. */
  targetsOf(tables: readonly TableShape[]): readonly TargetName[] {
    const targets = tables.flatMap(({ relation }) =>
      [this.shapes.of(relation) ?? relation, relation].map((table) => this.naming.target(table)),
    );
    return [...new Map(targets.map((target) => [sqlName(target), target])).values()];
  }

  /** Tables whose targets follow another shape or an unknown one. */
  behind(tables: readonly TableShape[]): readonly TableShape[] {
    return tables.filter(({ relation }) => !isFollowed(this.shapes.of(relation), relation));
  }

  /**
   * Returns the target of a relation's rows. Creates or alters it in the open transaction if that is needed and allowed. `at`: the commit LSN of
   * the first of these rows. Throws `table_changed` if the target follows a later shape already, which a copy brought, or cannot follow.
   */
  async prepared(client: Client, relation: Relation, form: TupleForm, at: Lsn): Promise<PreparedTable> {
    const known = this.#prepared.get(relation);
    if (known) return known;
    const shape = this.shapes.of(relation);
    const isOlder = this.#olderShape(relation, at) === "taken as it is";
    if (shape && !isOlder && !this.#isAsFollowed(shape, relation, at))
      this.#requireOrder(shape, relation, at);
    if (shape && qualifiedName(shape) !== qualifiedName(relation)) {
      const isRenamed = !this.naming.isShared(shape) && (await this.renamer.follow(client, shape, relation));
      if (!isRenamed && this.ledger.holds(relation)) throw this.#copyAgain(relation);
    }
    await this.types.make(client, relation);
    const target = this.naming.target(relation);
    const table = await this.#fit(client, target, relation, at);
    const staging = this.#staging.of(target, relation);
    const rank = this.catalog.rankOf(table);
    const isShared = this.naming.isShared(relation);
    const copy = this.ledger.stateOf(relation);
    const prepared = prepareTable(table, relation, form, { staging, copy, rank, isShared, isOlder });
    this.#prepared.set(relation, prepared);
    const last = this.catalog.shapeOf(relation.id)?.relation;
    if (last && !isFollowed(this.shapes.of(relation), last)) this.#isRefreshDue = true;
    return prepared;
  }

  /** Whether `prepared` has nothing to read or to alter. */
  isPrepared(relation: Relation): boolean {
    return this.#prepared.has(relation);
  }

  /** Whether the target follows a later shape, which it keeps, and takes no rows of the relation. `at`: the commit LSN of the changes. */
  isSuperseded(relation: Relation, at: Lsn): boolean {
    return this.#olderShape(relation, at) === "superseded";
  }

  /**
   * What becomes of changes of a shape that is older than the target's, which a copy has brought. Null: it is not older, or the table is copied
   * again.
   */
  #olderShape(relation: Relation, at: Lsn): "superseded" | "taken as it is" | null {
    const shape = this.shapes.of(relation);
    if (!shape || at >= shape.since || this.#isAsFollowed(shape, relation, at)) return null;
    // A copy into a shared target cannot delete rows, and a table that is gone or not selected gets none.
    const isShared = this.naming.isShared(relation) || this.naming.isShared(shape);
    if (this.makesCopies && !isShared && this.catalog.shapeOf(relation.id) !== null) return null;
    return this.ledger.holds(relation) && hasAllOf(shape, relation) ? "taken as it is" : "superseded";
  }

  /**
   * Before a table is copied: renames a target of our own that has its name but belongs to another source table. `followsName`: if the table's
   * own target still has an older name, it is renamed instead.
   */
  async vacateName(client: Client, relation: Relation, followsName: boolean): Promise<void> {
    const shape = this.shapes.of(relation);
    const isBehind = shape !== null && qualifiedName(shape) !== qualifiedName(relation);
    const isFollowing = isBehind && followsName && !this.naming.isShared(shape);
    if (isFollowing) await this.renamer.follow(client, shape, relation);
    else await this.renamer.vacateName(client, relation);
  }

  /**
   * Before a table is copied for a task: the stream may not have announced its new name yet, so that the target of that name may be another
   * table's. In the open transaction. Throws `table_changed` if the table's own target cannot get the name.
   */
  async takeName(client: Client, relation: Relation): Promise<void> {
    const shape = this.shapes.of(relation);
    const isBehind = shape !== null && qualifiedName(shape) !== qualifiedName(relation);
    if (!isBehind) return await this.renamer.vacateName(client, relation);
    if (!this.naming.isShared(shape) && (await this.renamer.follow(client, shape, relation))) return;
    throw new MillraceError(
      "table_changed",
      `Table ${qualifiedName(relation)} was ${qualifiedName(shape)} before, and the sink has yet to follow: its copy is tried again.`,
    );
  }

  /** Returns for each table why its target cannot take its rows now; null: it can, or does not exist. */
  async checkMigrations(
    client: Client,
    tables: readonly (AskedTable & Pick<CheckedTable, "isOfType">)[],
  ): Promise<readonly (MigrationRefused | null)[]> {
    const asked = tables.map((table) => ({
      ...table,
      known: this.catalog.shapeToCopyInto(table.relation) ?? this.catalog.shapeToFollow(table.relation),
      notNull: this.catalog.shapeOf(table.relation.id)?.notNull ?? null,
      isReplaced: this.ledger.isVoid(this.shapes.of(table.relation) ?? table.relation),
      occupying: this.renamer.occupyingTarget(table.relation),
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

  /** Whether a target has followed an older shape than that of the last refresh. The stream need not announce that again: a refresh must look. */
  takeRefreshDue(): boolean {
    const isDue = this.#isRefreshDue;
    this.#isRefreshDue = false;
    return isDue;
  }

  /** The table that `prepared` refused with `table_changed`; null: none. Forgets it. */
  takeAltered(): Relation | null {
    const altered = this.#altered;
    this.#altered = null;
    return altered;
  }

  /**
   * The next `prepared` drops the column's NOT NULL, whatever its name is by then. Returns false if there is no such column, or if it was called
   * before.
   */
  allowNull(relation: Relation | null, name: string): boolean {
    const { number = 0 } = relation?.columns.find((column) => column.name === name) ?? {};
    if (!relation || number === 0) return false;
    const allowed = this.#nullable.get(relation.id) ?? new Set();
    if (allowed.has(number)) return false;
    this.#nullable.set(relation.id, allowed.add(number));
    return true;
  }

  /** Call it when targets may have changed: by another session, or by a rollback. */
  forgetShapes(): void {
    this.types.forget();
    this.#prepared = new Map();
  }

  /** The table's target has been renamed. */
  #forgetTable(id: number): void {
    for (const relation of this.#prepared.keys()) if (relation.id === id) this.#prepared.delete(relation);
  }

  async #fit(client: Client, target: TargetName, relation: Relation, at: Lsn): Promise<TargetTable> {
    let table = await readTargetTable(client, target);
    if (!table) {
      if (this.ledger.holds(relation)) throw tableMissing(target);
      // The generated columns of now may use columns that the relation does not have yet: they are made once the target follows it.
      const now = this.catalog.shapeOf(relation.id) ?? announcedShape(relation);
      const shape = { ...now, relation, generated: [] };
      await createTable(client, target, shape);
      await addKeyOf(client, target, shape);
      table = await readTargetTable(client, target);
    }
    if (!table) throw new Error("a table is not there after it was made");
    const record = this.shapes.of(relation);
    const known = record?.columns ?? [];
    // Values of such a column are missing at the sink: a copy brings them.
    const isLost =
      hasLostColumn(table, known, relation) ||
      hasColumnFromBefore(record, relation) ||
      (record !== null && !this.naming.isShared(relation) && hasColumnOfOthers(table, known, relation));
    if (isLost && this.ledger.holds(relation)) throw this.#copyAgain(relation);
    const isBehind = this.#olderShape(relation, at) !== null;
    const followed = isBehind ? null : this.catalog.shapeToFollow(relation);
    this.#requireOwnValues(table, followed, relation);
    const isChanged = await this.#change(client, table, followed, relation);
    const nullable = this.#nullable.get(relation.id);
    if (nullable) await dropNotNull(client, table, relation, nullable);
    const fitted = isChanged ? ((await readTargetTable(client, target)) ?? table) : table;
    if (!isBehind && !isRecorded(record, relation)) await this.shapes.record(client, relation, at, fitted);
    return await this.computed.make(client, fitted, relation);
  }

  /** In a shared target nobody knows which rows are the table's own: a copy brings what they have in new columns. */
  #requireOwnValues(table: TargetTable, shape: ShapeRecord | null, relation: Relation): void {
    if (!this.naming.isShared(relation)) return;
    const missing = ownValuesMissing(table, shape, relation, this.config.migration_strategy);
    if (missing === null) return;
    if (this.ledger.holds(relation)) throw this.#copyAgain(relation);
    this.warn(missing);
  }

  #isAsFollowed(shape: ShapeRecord, relation: Relation, at: Lsn): boolean {
    return isAsFollowed(shape, relation, this.catalog.shapeOf(relation.id)?.relation ?? null, at);
  }

  /** Throws unless the relation's shape is known to be later than the target's. Otherwise a copy is needed. */
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
    const { migration_strategy: strategy } = this.config;
    const emptying = this.makesCopies ? [] : await emptyingSql(client, strategy, table, followed, relation);
    try {
      const isShared = this.naming.isShared(relation);
      const fitted = await fitTable(client, strategy, table, followed, relation, { isShared });
      if (fitted.key) {
        const { primaryKey = [] } = this.catalog.shapeOf(relation.id) ?? {};
        await addKey(client, table.target, inOrder(fitted.key, primaryKey));
      }
      return fitted.isChanged;
    } catch (error) {
      if (emptying.length > 0 && isConversionRefused(error))
        throw conversionRefused(table.target, emptying, error);
      // The source has converted its rows in a way that the sink cannot: a copy brings the result.
      if (areRowsUnfit(error) && this.ledger.holds(relation)) throw this.#copyAgain(relation);
      throw error;
    }
  }
}
