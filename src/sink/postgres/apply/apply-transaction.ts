// The transaction that batches are applied in. It begins with the first batch and is committed with the checkpoint. If the server refuses a
// batch, the batch is rolled back and, where there is a remedy, applied again. batch-applier.ts applies one batch.

import type { Client } from "pg";
import { type ChangeBatch, commitLsnOf, type TupleForm } from "../../../change/change-batch.ts";
import { type Lsn, lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { ErrorCode } from "../../../errors/error-codes.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { SinkEvents } from "../../sink-events.ts";
import { isReplaced } from "../bookkeeping/replaced-tables.ts";
import { describeDenial } from "../checks/privileges.ts";
import { HistoryRefused } from "../refusals/history-refused.ts";
import { longestPrefix } from "../refusals/longest-prefix.ts";
import { isRowRefused, type RefusedRow, withPosition, withRow } from "../refusals/refused-row.ts";
import { describeRefusedRows, withTable } from "../refusals/refused-rows.ts";
import { ofMismatch } from "../refusals/refused-table.ts";
import { type Remedy, remedyFor, type Tried } from "../refusals/remedy.ts";
import { isRowsMissing } from "../refusals/rows-missing.ts";
import { beginsAgainWithout } from "../refusals/table-set-aside.ts";
import type { AppliedTables } from "./applied-tables.ts";
import { BatchApplier } from "./batch-applier.ts";
import { checkDeferred, refusedAtEnd } from "./deferred-constraints.ts";
import type { MergeSession } from "./merge-session.ts";
import type { PreparedTable } from "./prepared-table.ts";
import type { RolledBackTo } from "./undo-log.ts";
import { WrittenBytes } from "./written-bytes.ts";

/** Each COMMIT truncates every temporary table of the session, used or not: too many would make it slow. */
const maxStagingTables = 40;

const refusals: ReadonlySet<ErrorCode> = new Set(["sink_rejected_rows", "sink_schema_mismatch"]);

export class ApplyTransaction {
  /** The form in which batches come. */
  form: TupleForm = "binary";
  #isOpen = false;
  /** The commit of the source's transaction of which it holds earlier pieces. These are gone from memory. Null: it holds none. */
  #commitLsnOfPieces: Lsn | null = null;
  readonly #staging: MergeSession["staging"] = new Map();
  readonly #written = new WrittenBytes();
  /** Dropped tables of the source whose last changes do not fit the target. */
  readonly #skipped = new Set<number>();

  constructor(
    private readonly connectorId: string,
    private readonly strategy: PostgresSinkConfig["migration_strategy"],
    private readonly tables: AppliedTables,
    private readonly makesCopies: boolean,
    private readonly events: SinkEvents,
    /** The last run ended because rows were refused: until something is durable, inserts are upserts. */
    private isUpsert: boolean,
  ) {}

  /** It has uncommitted changes. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Not all of what it holds can be applied again. */
  get holdsPieces(): boolean {
    return this.#commitLsnOfPieces !== null;
  }

  /**
   * Applies the batch, or a piece of a large transaction. If the server refuses it, it is applied again with a *remedy*, which is another way
   * to write it. Where no remedy helps, returns the refused row. The transaction then holds the source's transactions before that row's.
   */
  async apply(client: Client, batch: ChangeBatch): Promise<RefusedRow | null> {
    const isPiece = this.#isOpen;
    // A refused COMMIT rolls back all pieces, and the earlier ones are gone from memory. So the last piece checks deferred constraints first.
    const isStrict = isPiece && !batch.endsInTransaction;
    if (!isPiece) this.#commitLsnOfPieces = null;
    if (!isPiece) await client.query("begin");
    this.#isOpen = true;
    if (batch.count === 0) {
      if (isStrict) await checkDeferred(client, this.#commitLsnOfPieces);
      return null;
    }
    if (isPiece) {
      await client.query("savepoint piece");
      this.tables.undo.savepoint();
    }
    try {
      await this.#applyAll(client, batch, isPiece, isStrict);
    } catch (error) {
      if (!isRowRefused(error)) throw error;
      return await this.#findRefused(client, batch, isPiece, error as MillraceError, isStrict);
    }
    if (isPiece) await client.query("release savepoint piece");
    // The next piece has a savepoint of its own, after these tables were made.
    for (const state of this.#staging.values()) state.outlivesRollback = true;
    if (batch.endsInTransaction) this.#commitLsnOfPieces = commitLsnOf(batch, batch.count - 1);
    return null;
  }

  /** After a COMMIT that a deferred constraint refused: applies the batch again, with constraints checked at once. Returns as `apply` does. */
  async applyAgain(client: Client, batch: ChangeBatch): Promise<RefusedRow | null> {
    await client.query("rollback; discard temp");
    this.#staging.clear();
    await this.#undo(client, false);
    try {
      await this.#applyAll(client, batch, false, true);
      return null;
    } catch (error) {
      if (!isRowRefused(error)) throw error;
      return await this.#findRefused(client, batch, false, error as MillraceError, true);
    }
  }

  /** `isStrict`: deferred constraints are checked now, not at COMMIT. */
  async #applyAll(client: Client, batch: ChangeBatch, isPiece: boolean, isStrict: boolean): Promise<void> {
    const tried = { upsert: this.isUpsert, order: false, refresh: false };
    while (true) {
      const applier = this.#applier(client, batch, tried);
      let isApplied = false;
      try {
        await applier.apply();
        isApplied = true;
        if (isStrict) await checkDeferred(client);
        return;
      } catch (error) {
        // The migration met a table whose copy the stream has not passed yet. Void the copy durably, then fail: the next run copies it again.
        const altered = this.tables.registry.takeAltered();
        if (altered !== null) await this.#voidCopy(client, altered);
        const remedy = remedyFor(error, tried, applier.needsOrder, this.strategy);
        if (remedy?.kind === "upsert" || remedy?.kind === "order" || remedy?.kind === "refresh")
          tried[remedy.kind] = true;
        else {
          const current = isApplied ? null : applier.current;
          await this.#applyRemedy(client, current, remedy, error, lsn(batch.transactions.commitLsn[0]!));
          // The rollback has also undone earlier pieces: the whole transaction must come again.
          if (isPiece && !this.#isOpen) throw beginsAgainWithout(current);
        }
        await this.#undo(client, isPiece);
        if (tried.order) await client.query("set constraints all deferred");
      }
    }
  }

  /** Rolls back to where the batch began. */
  async #undo(client: Client, isPiece: boolean): Promise<void> {
    await client.query(isPiece ? "rollback to savepoint piece" : "rollback; begin");
    this.#isOpen = true;
    this.#forgetRolledBack(isPiece ? "savepoint" : "begin");
  }

  /** Finds the refused row by trying prefixes of the batch: the server does not name a row in a set-wise merge. */
  async #findRefused(
    client: Client,
    batch: ChangeBatch,
    isPiece: boolean,
    refusal: MillraceError,
    isStrict: boolean,
  ): Promise<RefusedRow> {
    let error = refusal;
    const isAccepted = async (count: number) => {
      await this.#undo(client, isPiece);
      try {
        await this.#applyAll(client, { ...batch, count }, isPiece, isStrict);
        return true;
      } catch (failure) {
        if (!isRowRefused(failure)) throw failure;
        error = failure as MillraceError;
        return false;
      }
    };
    // The row is in an earlier piece, which cannot be applied again.
    if (isStrict && isPiece && !(await isAccepted(0))) throw withPosition(error, commitLsnOf(batch, 0));
    const at = isStrict
      ? await refusedAtEnd(batch, isAccepted)
      : await longestPrefix(batch.count, isAccepted);
    await this.#undo(client, isPiece);
    const relation = batch.relations[batch.relation[at]!]!;
    const described = await withRow(client, withTable(error, relation), batch, at);
    const transaction = batch.transaction[at]!;
    const rows = batch.transaction.indexOf(transaction);
    const resumeLsn = transaction === 0 || isPiece ? null : lsn(batch.transactions.endLsn[transaction - 1]!);
    const isEarlierApplied = resumeLsn !== null && (await isAccepted(rows));
    return {
      error: described,
      relation,
      commitLsn: commitLsnOf(batch, at),
      before: isEarlierApplied ? { resumeLsn, rows } : null,
    };
  }

  /** Commits what was applied, together with the checkpoint. */
  async commit(client: Client, from: Lsn, to: Lsn): Promise<void> {
    await this.#written.moveCheckpoint(client, { connectorId: this.connectorId, from, to });
    if (this.#staging.size > maxStagingTables) await this.#dropStaging(client);
    await client.query("commit");
    this.#isOpen = false;
    this.isUpsert = false;
    this.tables.undo.committed();
    for (const state of this.#staging.values()) {
      state.dirty = false;
      state.outlivesRollback = true;
    }
  }

  /** Rolls back. If the session is broken, the server does that by itself. */
  async giveUp(client: Client): Promise<void> {
    await client.query("rollback").catch(() => {});
    this.#isOpen = false;
    this.#forgetRolledBack("begin");
  }

  /**
   * Deals with `error`, which this table caused, so that changes from `since` on can be applied. Throws where nothing helps. Setting a table
   * aside takes a transaction of its own, so the open one is rolled back.
   */
  async #applyRemedy(
    client: Client,
    relation: Relation | null,
    remedy: Exclude<Remedy, { kind: "upsert" | "order" | "refresh" }> | null,
    error: unknown,
    since: Lsn,
  ): Promise<void> {
    if (remedy?.kind === "allow null" && this.tables.registry.allowNull(relation, remedy.column)) return;
    const refusal = remedy?.kind === "set aside" ? remedy.refusal : null;
    if (this.#skipIfDropped(relation, refusal ?? error)) return;
    // Only another copy brings the missing rows. The next run makes it, or goes on without them and warns of the table.
    if (relation !== null && isRowsMissing(error)) await this.#voidCopy(client, relation);
    if (refusal === null || relation === null || relation.isGone) throw ofMismatch(error, relation);
    // If the column is not ours, the table is one that a trigger has written to.
    const isOurs = refusal.column === null || relation.columns.some(({ name }) => name === refusal.column);
    if (!isOurs) throw error;
    if (!this.makesCopies) throw ofMismatch(refusal, relation);
    await this.giveUp(client);
    // The rollback has undone earlier migrations, so the SQL is written for the table as it is now.
    const { registry, histories, setAside } = this.tables;
    const asked = { relation, nullColumn: refusal.column, reported: refusal.commands };
    const [now] = await registry.checkMigrations(client, [asked]);
    const ofHistory = await histories.check(client, relation);
    const isOfHistory = ofHistory !== null || refusal instanceof HistoryRefused;
    // Nobody could tell when it can go on.
    if (isOfHistory && (now ?? ofHistory) === null) throw error;
    // It misses changes until the table is copied again. Of a table that is set aside already, nothing but its history takes rows.
    if (isOfHistory || setAside.has(relation.id))
      await this.tables.inTransaction(client, () => histories.interrupt(client, relation));
    await setAside.add(client, relation, now ?? ofHistory ?? refusal, since);
  }

  /** Skips the changes of a table that the source has dropped: nothing could repair it, and it must not stop the others. */
  #skipIfDropped(relation: Relation | null, error: unknown): boolean {
    const refusal = describePostgresError(error, "sink", "sink_rejected_rows");
    if (!refusals.has(refusal.code) || !relation?.isGone || this.#skipped.has(relation.id)) return false;
    this.#skipped.add(relation.id);
    this.events.warning(
      "dropped tables",
      `Table ${qualifiedName(relation)} was dropped at the source. Its last changes do not fit the sink's table, or its history, and are left ` +
        `out: ${refusal.message}`,
    );
    return true;
  }

  /** Durable on return. The open transaction is rolled back first. */
  async #voidCopy(client: Client, relation: Relation): Promise<void> {
    await client.query("rollback");
    this.#forgetRolledBack("begin");
    await this.tables.ledger.voidOf(client, relation);
  }

  /** A rollback has dropped the staging tables and undone the migrations of the transaction. */
  #forgetRolledBack(to: RolledBackTo): void {
    for (const [name, state] of this.#staging) if (!state.outlivesRollback) this.#staging.delete(name);
    if (to === "begin") this.#written.clear();
    this.tables.registry.forgetShapes();
    this.tables.undo.rolledBack(to);
  }

  #applier(client: Client, batch: ChangeBatch, tried: Tried): BatchApplier {
    const session: MergeSession = {
      client,
      form: this.form,
      staging: this.#staging,
      written: this.#written,
      upserts: tried.upsert,
      repeats: false,
      incomplete: null,
      touched: this.tables.touched,
      inOrder: tried.order,
      warn: (reason) => this.events.warning("rows", reason),
    };
    const at = lsn(batch.transactions.commitLsn[0]!);
    return new BatchApplier(session, batch, {
      prepare: (relation, at) => this.#prepared(client, relation, at),
      histories: this.tables.histories.inBatch(client, this.form, at, this.#skipped),
      copyOf: (relation) => this.tables.ledger.stateOf(relation),
      isSkipped: (relation) => this.#isLeftOut(relation) || this.tables.setAside.has(relation.id),
      incomplete: this.tables.incomplete,
      isSuperseded: (relation, at) => this.tables.registry.isSuperseded(relation, at),
    });
  }

  #isLeftOut(relation: Relation): boolean {
    return this.#skipped.has(relation.id) || isReplaced(relation, this.tables);
  }

  /** Errors name the table. */
  async #prepared(client: Client, relation: Relation, at: Lsn): Promise<PreparedTable> {
    try {
      // They may be altered for the relation.
      if (!this.tables.registry.isPrepared(relation)) await this.#written.check(client);
      return await this.tables.registry.prepared(client, relation, this.form, at);
    } catch (error) {
      if (error instanceof MillraceError) throw error;
      throw describeDenial(error, client.user, relation) ?? describeRefusedRows(error, relation, []);
    }
  }

  async #dropStaging(client: Client): Promise<void> {
    const names = [...this.#staging.keys()].map((name) => `pg_temp.${name}`);
    await client.query(`drop table ${names.join(", ")}`);
    this.#staging.clear();
  }
}
