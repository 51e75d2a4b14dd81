// What a run knows of its tables at the sink: what each has followed, which copies count, which are set aside. It makes them
// ready for the run's copies and its stream. Rows are others' work.

import type { Client } from "pg";
import type { TupleForm } from "../../change/change-batch.ts";
import type { Lsn } from "../../change/lsn.ts";
import { qualifiedName, type Relation, type TableShape } from "../../change/relation.ts";
import type { PostgresSinkConfig } from "../../connector/config/sink-config.ts";
import type { PreparedTables, SetAsideTable, SinkContext, UnreadableTable } from "../sink.ts";
import type { AppliedTables } from "./apply/apply-transaction.ts";
import { UndoLog } from "./apply/undo-log.ts";
import { type TableCopyRecord, voidCopies } from "./bookkeeping/bookkeeping.ts";
import { CopyLedger } from "./bookkeeping/copy-ledger.ts";
import { type MigrationCheck, SetAsideTables } from "./bookkeeping/set-aside-tables.ts";
import { isRecorded, ShapeLedger, type ShapeRecord } from "./bookkeeping/shape-ledger.ts";
import { takeTables } from "./bookkeeping/table-claims.ts";
import { areRowsKept, findUnlogged, watchRows } from "./bookkeeping/unlogged-tables.ts";
import { DividedCopies } from "./copy/divided-copies.ts";
import { HeldChanges } from "./copy/held-changes.ts";
import { KeptCopies } from "./copy/kept-copies.ts";
import { OwedRowNotes } from "./copy/owed-rows.ts";
import { TouchedKeys } from "./copy/touched-keys.ts";
import { MigrationRefused } from "./schema/migration-refused.ts";
import { TableRegistry } from "./schema/table-registry.ts";
import type { TargetNaming } from "./schema/target-naming.ts";
import type { SinkPace } from "./sink-pace.ts";
import { misfitRefused } from "./types/misfit-type.ts";
import { TypeMaker } from "./types/type-maker.ts";

export class SinkTables implements AppliedTables {
  /** What is remembered of tables goes back as far as the transaction does. */
  readonly undo = new UndoLog();
  readonly ledger: CopyLedger;
  readonly shapes: ShapeLedger;
  readonly registry: TableRegistry;
  readonly setAside: SetAsideTables;
  readonly divided: DividedCopies;
  readonly owed: OwedRowNotes;
  readonly touched: TouchedKeys;
  readonly held: HeldChanges;
  readonly kept: KeptCopies;
  /** What was warned of last. */
  #firing: string | null = null;

  constructor(
    config: PostgresSinkConfig,
    private readonly naming: TargetNaming,
    private readonly context: SinkContext,
    pace: SinkPace,
  ) {
    const { connectorId, makesCopies, events } = context;
    this.ledger = new CopyLedger(connectorId, naming, this.undo);
    this.held = new HeldChanges(connectorId, pace.keptPieceMs);
    this.divided = new DividedCopies(connectorId);
    this.owed = new OwedRowNotes(connectorId, this.ledger, this.undo);
    this.shapes = new ShapeLedger(connectorId, this.undo);
    this.touched = new TouchedKeys(connectorId, this.shapes, naming);
    this.kept = new KeptCopies(connectorId, this.touched, pace.keptCopyMs);
    const { allowed, disable_all } = config.migration_strategy;
    const types = new TypeMaker(
      { alter: !disable_all && allowed.includes("Datatype"), rename: makesCopies },
      (reason) => events.warning("types", reason),
    );
    this.registry = new TableRegistry(config, naming, this.ledger, this.shapes, types, (reason) =>
      events.warning("guessed columns", reason),
    );
    this.setAside = new SetAsideTables(connectorId, this.ledger, this.shapes, (tables) =>
      events.setAside(makesCopies ? tables : tables.map(withoutCopies)),
    );
  }

  /** Whether the table is what the relation's rows are for: nothing has to be made, altered or noted before them. */
  isReadyFor(relation: Relation): boolean {
    return isRecorded(this.shapes.of(relation), relation);
  }

  /** What earlier runs have left in the sink's database. */
  async load(client: Client, copies: Iterable<TableCopyRecord>): Promise<void> {
    this.ledger.load(copies);
    await this.shapes.load(client);
    await this.setAside.load(client);
    await this.divided.load(client);
    await this.owed.load(client);
    await this.held.load(client);
    await this.kept.load(client);
  }

  /** What there is of copies that are not made yet. Durable on return. In no transaction. */
  async dropBegun(client: Client): Promise<void> {
    await this.dropRanges(client);
    for (const id of this.held.tableIds)
      if (this.ledger.pointOf(id) === null) await this.held.end(client, id);
  }

  /** As `dropBegun`, of what was copied. */
  async dropRanges(client: Client): Promise<void> {
    await this.divided.drop(client);
    await this.kept.dropAll(client);
  }

  forget(keepsShapes: boolean): void {
    this.ledger.voidKnown();
    if (!keepsShapes) this.shapes.forget();
    this.setAside.forget();
    this.owed.forget();
    this.held.forget();
  }

  /** `best`: the form that all tables' rows can come in. `since`: what the stream has brought before it is durable. */
  async prepare(
    client: Client,
    tables: readonly TableShape[],
    unreadable: readonly UnreadableTable[],
    since: Lsn,
  ): Promise<Omit<PreparedTables, "form"> & { readonly best: TupleForm }> {
    // First: a side table may have columns of a type that has to make room.
    const denied = new Set(unreadable.map(({ table }) => table.relation.id));
    const isLeftOut = ({ id }: Relation) => denied.has(id) || this.setAside.has(id);
    await this.held.sweep(client, tables, (relation) => this.ledger.holds(relation), isLeftOut);
    // Such a copy may be committed, and not be known yet.
    const spoiled = await this.held.spoil(client, tables);
    if (spoiled.length > 0) await voidCopies(client, this.context.connectorId, spoiled);
    const uncopied = tables.filter(({ relation }) => !this.ledger.holds(relation));
    await this.divided.keep(client, uncopied, since, (table) => this.held.isKeptFor(table));
    await this.kept.sweep(client, tables);
    const best = await this.registry.look(client, tables);
    this.#tellFiring();
    const { connectorId } = this.context;
    await takeTables(client, connectorId, this.registry.targetsOf(tables), this.ledger);
    const isThere = (relation: Relation) => this.registry.isThere(relation);
    await this.ledger.void(client, this.ledger.outdated(tables, isThere));
    await this.#voidLost(client, tables);
    await this.ledger.remark(client, tables);
    const missing = await this.#makeRoom(
      client,
      await this.#copyable(client, tables, unreadable, since),
      since,
    );
    const inOrder = this.registry.inOrder(missing);
    const behind = this.registry.behind(tables).filter(({ relation }) => !this.setAside.has(relation.id));
    const isAsFollowed = (table: TableShape) => !behind.includes(table) && !this.held.has(table.relation.id);
    const asFollowed = tables.filter(isAsFollowed);
    this.#awaitOwed(since);
    return {
      best,
      missing: inOrder ?? missing,
      isOrdered: inOrder !== null,
      behind,
      owed: await this.owed.due(client, asFollowed, since),
    };
  }

  /** Whether `prepare` is to be called. `at`: what the stream has brought. */
  takeLookDue(at: Lsn): boolean {
    this.#awaitOwed(at);
    const isLookDue = this.registry.takeLookDue();
    return this.owed.takeDue(at, (id) => this.held.has(id)) || isLookDue;
  }

  /** A quiet source would not say for long that all of its log was sent up to there. */
  #awaitOwed(at: Lsn): void {
    const awaited = this.owed.awaited(at);
    if (awaited !== null) this.context.events.awaits(awaited);
  }

  /** Rows of unlogged tables are gone with a crash of the sink's server: the next copies bring them. */
  async #voidLost(client: Client, tables: readonly TableShape[]): Promise<void> {
    const targets = tables.map(({ relation }) => this.naming.target(this.shapes.of(relation) ?? relation));
    const unlogged = await findUnlogged(client, targets);
    const { connectorId } = this.context;
    if (unlogged.length === 0 || (await areRowsKept(client, connectorId))) return;
    for (const place of unlogged) await this.ledger.voidOf(client, tables[place]!.relation);
    await watchRows(client, connectorId);
  }

  /** What the table of the relation's name has followed; null: it is another, or nothing is known of it. */
  shapeToCopyInto(relation: Relation): ShapeRecord | null {
    if (this.ledger.isElsewhere(relation)) return null;
    const shape = this.shapes.of(relation);
    return shape && qualifiedName(shape) === qualifiedName(relation) ? shape : null;
  }

  /** Durable on return: the copy that follows is a transaction of another session. See `TableRegistry.takeName`. */
  async takeName(client: Client, relation: Relation): Promise<void> {
    await this.#remembering(client, () => this.registry.takeName(client, relation));
  }

  /** Makes the table's target, or makes it fit, as the first of its rows would that the stream brings: `at` is there. Durable on return. */
  async makeReady(client: Client, relation: Relation, form: TupleForm, at: Lsn): Promise<void> {
    await this.#remembering(client, () => this.registry.prepared(client, relation, form, at));
  }

  /** In a transaction of its own. What is remembered of the tables goes back with it. */
  async #remembering(client: Client, action: () => Promise<unknown>): Promise<void> {
    await client.query("begin");
    try {
      await action();
      await client.query("commit");
      this.undo.committed();
    } catch (error) {
      await client.query("rollback").catch(() => {});
      this.undo.rolledBack("begin");
      throw error;
    } finally {
      this.registry.forgetShapes();
    }
  }

  /** Whether a table that is set aside could be copied by now, or needs another change. */
  isAnyChanged(client: Client): Promise<boolean> {
    return this.setAside.isAnyChanged(this.#checkOf(client));
  }

  /** Tables that lack a copy; those that cannot take one are set aside. */
  async #copyable(
    client: Client,
    tables: readonly TableShape[],
    unreadable: readonly UnreadableTable[],
    since: Lsn,
  ): Promise<readonly TableShape[]> {
    const isMissing = (relation: Relation) =>
      !this.ledger.holds(relation) && !this.held.isBeingCopied(relation);
    const missing = tables.filter(({ relation }) => isMissing(relation));
    const asked = this.context.makesCopies ? missing : [];
    const ready = await this.setAside.look(client, tables, asked, unreadable, this.#checkOf(client), since);
    return this.context.makesCopies ? ready : missing;
  }

  /** That the values of a type have no place only the sink's server tells, when it is sent one: it need not be asked again. */
  #checkOf(client: Client): MigrationCheck {
    return async (asked) => {
      const refusals = [...(await this.registry.checkMigrations(client, asked))];
      for (const [i, { relation }] of asked.entries()) {
        const told = this.setAside.commandsOf(relation);
        if (refusals[i] || told === null) continue;
        const refusal = await misfitRefused(client, this.naming.target(relation), relation);
        if (refusal?.commands.join() === told.join()) refusals[i] = refusal;
      }
      return refusals;
    };
  }

  #tellFiring(): void {
    const { firing } = this.registry;
    if (firing !== this.#firing) this.context.events.warning("triggers", firing);
    this.#firing = firing;
  }

  /** Returns those that there is room for. What may not be renamed for one of them keeps that one. */
  async #makeRoom(client: Client, tables: readonly TableShape[], since: Lsn): Promise<readonly TableShape[]> {
    if (tables.length === 0) return tables;
    await client.query("begin");
    for (const [i, { relation }] of tables.entries()) {
      try {
        await this.registry.makeRoom(client, relation, this.context.makesCopies);
      } catch (error) {
        if (!(error instanceof MigrationRefused) || !this.context.makesCopies) throw error;
        await client.query("rollback");
        this.undo.rolledBack("begin");
        await this.setAside.add(client, relation, error, since);
        return await this.#makeRoom(client, tables.toSpliced(i, 1), since);
      }
    }
    await client.query("commit");
    this.undo.committed();
    return tables;
  }
}

function withoutCopies(table: SetAsideTable): SetAsideTable {
  const task = "No copy is made by itself (skip_snapshots): create a Snapshot task for the table then.";
  return { ...table, reason: `${table.reason} ${task}` };
}
