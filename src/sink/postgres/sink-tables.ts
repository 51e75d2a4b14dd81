// What a run knows of its targets: the shape that each follows, which copies are valid, which tables are set aside. Prepares them for copies and
// the stream. It writes no rows.

import type { Client } from "pg";
import type { TupleForm } from "../../change/change-batch.ts";
import type { Lsn } from "../../change/lsn.ts";
import type { Relation, TableShape } from "../../change/relation.ts";
import type { PostgresSinkConfig } from "../../connector/config/sink-config.ts";
import type { PreparedTables, SinkContext } from "../sink.ts";
import type { UnreadableTable } from "../sink-events.ts";
import type { AppliedTables } from "./apply/applied-tables.ts";
import { UndoLog } from "./apply/undo-log.ts";
import type { TableCopyRecord } from "./bookkeeping/bookkeeping.ts";
import { CopiesUnderWay } from "./bookkeeping/copies-under-way.ts";
import { CopyLedger } from "./bookkeeping/copy-ledger.ts";
import { CopyRecords } from "./bookkeeping/copy-records.ts";
import { IncompleteRows } from "./bookkeeping/incomplete-rows.ts";
import { type MigrationCheck, SetAsideTables, withoutCopies } from "./bookkeeping/set-aside-tables.ts";
import { isFollowed, isRecorded, ShapeLedger, type ShapeRecord } from "./bookkeeping/shape-ledger.ts";
import { claimTargets } from "./bookkeeping/table-claims.ts";
import { voidLost } from "./bookkeeping/unlogged-tables.ts";
import { InterruptedCopies } from "./copy/interrupted-copies.ts";
import { TouchedKeys } from "./copy/touched-keys.ts";
import { awaitedByHistories, dueHistories, requireUnmerged } from "./history/due-histories.ts";
import { Histories, type HistoryAsked } from "./history/histories.ts";
import { MigrationRefused } from "./refusals/migration-refused.ts";
import { isAllowed } from "./schema/migration/table-migration.ts";
import { TableRegistry } from "./schema/table-registry.ts";
import type { TargetNaming } from "./schema/target-naming.ts";
import type { SinkPace } from "./sink-pace.ts";
import { incompatibleTypeRefused } from "./types/incompatible-type.ts";
import { outdatedBy } from "./types/outdated-labels.ts";
import { TypeMaker } from "./types/type-maker.ts";

export class SinkTables implements AppliedTables {
  /** Undoes changes of this knowledge when a transaction is rolled back. */
  readonly undo = new UndoLog();
  readonly ledger: CopyLedger;
  readonly shapes: ShapeLedger;
  readonly mayAlterTypes: boolean;
  readonly registry: TableRegistry;
  readonly setAside: SetAsideTables;
  readonly records: CopyRecords;
  readonly incomplete: IncompleteRows;
  readonly touched: TouchedKeys;
  readonly underWay = new CopiesUnderWay();
  readonly histories: Histories;
  readonly interrupted: InterruptedCopies;
  /** The last warning of firing triggers. */
  #firing: string | null = null;

  constructor(
    config: PostgresSinkConfig,
    private readonly naming: TargetNaming,
    private readonly context: SinkContext,
    pace: SinkPace,
    asked: HistoryAsked,
  ) {
    const { connectorId, makesCopies, events } = context;
    this.ledger = new CopyLedger(connectorId, naming, this.undo);
    this.records = new CopyRecords(connectorId);
    this.incomplete = new IncompleteRows(connectorId, this.ledger, this.undo);
    this.shapes = new ShapeLedger(connectorId, this.undo);
    this.touched = new TouchedKeys(connectorId, this.shapes);
    this.interrupted = new InterruptedCopies(connectorId, this.records, this.touched, pace.copyRetentionMs);
    this.mayAlterTypes = isAllowed(config.migration_strategy, "Datatype");
    const warn = (topic: string) => (reason: string | null) => events.warning(topic, reason);
    const types = new TypeMaker(
      connectorId,
      { alter: this.mayAlterTypes, rename: makesCopies },
      warn("types"),
    );
    this.registry = new TableRegistry(
      config,
      naming,
      this.ledger,
      this.shapes,
      types,
      makesCopies,
      warn("guessed columns"),
      warn("computed columns"),
    );
    const { suffix } = config.history_mode.append;
    this.histories = new Histories(
      connectorId,
      { asked, suffix, makesCopies, warn: (topic, reason) => events.warning(topic, reason) },
      naming,
      this.ledger,
      this.undo,
      (relation) => isFollowed(this.shapes.of(relation), relation),
    );
    this.setAside = new SetAsideTables(connectorId, this.ledger, this.shapes, (tables) =>
      events.setAside(makesCopies ? tables : tables.map(withoutCopies)),
    );
  }

  /** Whether the target can take the relation's rows without being created, altered or recorded first. */
  isReadyFor(relation: Relation): boolean {
    return isRecorded(this.shapes.of(relation), relation);
  }

  /** Loads what earlier runs have recorded. */
  async load(client: Client, copies: Iterable<TableCopyRecord>): Promise<void> {
    this.ledger.load(copies);
    await this.shapes.load(client);
    await this.setAside.load(client);
    await this.records.load(client);
    await this.incomplete.load(client);
    await this.interrupted.load(client);
    await this.histories.load(client);
  }

  /** Drops unfinished copies. Durable on return. In no transaction. */
  async dropBegun(client: Client): Promise<void> {
    await this.interrupted.dropAll(client);
    await this.records.dropAll(client);
  }

  forget(keepsShapes: boolean): void {
    this.ledger.voidKnown();
    if (!keepsShapes) this.shapes.detach();
    if (!keepsShapes) this.histories.forget();
    this.setAside.forget();
    this.incomplete.forget();
    this.underWay.forget();
  }

  /** `best`: the best form that all tables take. `since`: changes that the stream brought before it are durable. */
  async prepare(
    client: Client,
    tables: readonly TableShape[],
    unreadable: readonly UnreadableTable[],
    since: Lsn,
  ): Promise<Omit<PreparedTables, "form"> & { readonly best: TupleForm }> {
    this.underWay.check(tables);
    requireUnmerged(tables, this.naming, this.histories);
    if (this.histories.adopt(tables))
      await this.inTransaction(client, () => this.histories.switchOff(client));
    // First: a side table may use a type that is about to be replaced.
    const uncopied = tables.filter(({ relation }) => !this.ledger.holds(relation));
    await this.records.dropStaleSides(client, uncopied, since);
    await this.interrupted.sweep(client, tables, (id) => this.underWay.has({ id }));
    const best = await this.registry.refresh(client, tables, outdatedBy(client, this.touched, this.ledger));
    this.#warnOfFiring();
    const targets = [...this.registry.targetsOf(tables), ...this.histories.namesOf(tables)];
    await claimTargets(client, this.context.connectorId, targets, this.ledger);
    const { catalog, computed } = this.registry;
    const outdated = this.ledger.outdated(tables, (relation) => catalog.isThere(relation));
    await this.ledger.void(client, outdated);
    const current = tables.map(({ relation }) => this.naming.target(this.shapes.of(relation) ?? relation));
    await voidLost(client, this.context.connectorId, current, async (place) => {
      const { relation } = tables[place]!;
      await this.interrupted.drop(client, relation.id);
      await this.ledger.voidOf(client, relation);
    });
    await this.incomplete.voidAltered(client, tables);
    await this.ledger.updateIdentities(client, tables);
    const missing = await this.#vacateNames(
      client,
      await this.#copyable(client, tables, unreadable, since),
      since,
    );
    if (computed.areAny) await this.inTransaction(client, () => computed.makeAll(client));
    const inOrder = catalog.inOrder(missing);
    const behind = this.registry.behind(tables).filter(({ relation }) => !this.setAside.has(relation.id));
    const asFollowed = tables.filter((table) => !behind.includes(table));
    this.#awaitIncomplete(since);
    const unproved = this.ledger.unprovedAmong(tables);
    return {
      best,
      missing: inOrder ?? missing,
      isOrdered: inOrder !== null,
      behind,
      // An interrupted incremental copy has their changes.
      hasChanges: missing.some(({ relation }) => this.records.of(relation.id, "incremental") !== null),
      incomplete: await this.incomplete.due(client, asFollowed, since),
      withHistory: this.histories.tableIds,
      unproved,
      // The rows of a history have the LSN of the commit, which is not known before it. And unproved rows are upserted.
      takesInProgress: this.histories.tableIds.size + unproved.size === 0,
    };
  }

  /** Whether a history is to be compared with its table now: then `prepare` must be called. `at`: the stream's position. */
  isHistoryDue(at: Lsn): boolean {
    return dueHistories(this, at, true).length > 0;
  }

  /** Between two batches: compares histories with copies that they have not been compared with. Durable on return. */
  async reconcileHistories(client: Client, at: Lsn, hasStream: boolean): Promise<void> {
    for (const { table, lsn } of dueHistories(this, at, hasStream)) {
      try {
        await this.inTransaction(client, () => this.histories.reconcile(client, table, lsn));
      } catch (error) {
        if (!(error instanceof MigrationRefused) || !this.context.makesCopies) throw error;
        await this.setAside.add(client, table.relation, error, at);
      }
    }
    const awaited = awaitedByHistories(this, at);
    if (hasStream && awaited !== null) this.context.events.awaits(awaited);
  }

  /** Whether `prepare` must be called. `at`: the stream's position. */
  takeRefreshDue(at: Lsn): boolean {
    this.#awaitIncomplete(at);
    const isRefreshDue = this.registry.takeRefreshDue();
    return this.incomplete.takeDue(at) || isRefreshDue;
  }

  /** Asks the stream for a batch at that LSN: a quiet source might not confirm for long that it has sent everything up to there. */
  #awaitIncomplete(at: Lsn): void {
    const awaited = this.incomplete.awaited(at);
    if (awaited !== null) this.context.events.awaits(awaited);
  }

  /** The shape that the target of the relation's name follows; null: it is another table's, or not known. */
  shapeToCopyInto(relation: Relation): ShapeRecord | null {
    return this.ledger.isElsewhere(relation) ? null : this.registry.catalog.shapeToCopyInto(relation);
  }

  /** Durable on return: the copy that follows is a transaction of another session. See `TableRegistry.takeName`. */
  async takeName(client: Client, relation: Relation): Promise<void> {
    await this.inTransaction(client, () => this.registry.takeName(client, relation));
  }

  /** Runs `action` in a transaction of its own. A rollback undoes what is known of the tables as well. */
  async inTransaction<T>(client: Client, action: () => Promise<T>): Promise<T> {
    await client.query("begin");
    try {
      const result = await action();
      await client.query("commit");
      this.undo.committed();
      return result;
    } catch (error) {
      await client.query("rollback").catch(() => {});
      this.undo.rolledBack("begin");
      throw error;
    } finally {
      this.registry.forgetShapes();
    }
  }

  /** Whether a table that is set aside can be copied now, or needs another change. */
  isAnyChanged(client: Client): Promise<boolean> {
    return this.setAside.isAnyChanged(this.#checkOf(client));
  }

  /** Returns tables that lack a copy and can take one, or all where none are made. The others are set aside. */
  async #copyable(
    client: Client,
    tables: readonly TableShape[],
    unreadable: readonly UnreadableTable[],
    since: Lsn,
  ): Promise<readonly TableShape[]> {
    const { ledger, underWay, registry } = this;
    const missing = tables.filter(({ relation }) => !ledger.holds(relation) && !underWay.has(relation));
    const renamed = registry.renamer.leftToOthers(missing);
    if (renamed.length > 0) await this.inTransaction(client, () => registry.renamer.adopt(client, renamed));
    const asked = this.context.makesCopies ? missing : [];
    const ready = await this.setAside.review(client, tables, asked, unreadable, this.#checkOf(client), since);
    return this.context.makesCopies ? ready : missing.map((table) => ledger.withVoid(table));
  }

  /**
   * Checks migrations, and keeps the refusal of an incompatible type: the check cannot find that, as only a value shows it to the server.
   */
  #checkOf(client: Client): MigrationCheck {
    return async (asked) => {
      const refusals = [...(await this.registry.checkMigrations(client, asked))];
      for (const [i, { relation }] of asked.entries()) {
        refusals[i] ??= await this.histories.check(client, relation);
        const reported = this.setAside.commandsOf(relation);
        if (refusals[i] || reported === null) continue;
        const refusal = await this.incompatible(client, relation);
        if (refusal?.commands.join() === reported.join()) refusals[i] = refusal;
      }
      return refusals;
    };
  }

  /** See `incompatibleTypeRefused`. */
  incompatible(client: Client, relation: Relation): Promise<MigrationRefused | null> {
    return incompatibleTypeRefused(client, this.naming.target(relation), relation, this.mayAlterTypes);
  }

  #warnOfFiring(): void {
    const { firing } = this.registry.catalog;
    if (firing !== this.#firing) this.context.events.warning("triggers", firing);
    this.#firing = firing;
  }

  /** Makes the tables' names free at the sink. A table whose name may not be freed is set aside. Returns the others. */
  async #vacateNames(
    client: Client,
    tables: readonly TableShape[],
    since: Lsn,
  ): Promise<readonly TableShape[]> {
    if (tables.length === 0) return tables;
    await client.query("begin");
    for (const [i, { relation }] of tables.entries()) {
      try {
        await this.registry.vacateName(client, relation, this.context.makesCopies);
      } catch (error) {
        if (!(error instanceof MigrationRefused) || !this.context.makesCopies) throw error;
        await client.query("rollback");
        this.undo.rolledBack("begin");
        await this.setAside.add(client, relation, error, since);
        return await this.#vacateNames(client, tables.toSpliced(i, 1), since);
      }
    }
    await client.query("commit");
    this.undo.committed();
    return tables;
  }
}
