// The transaction that batches are applied in: begun with the first of them, committed with the checkpoint. What the server
// refuses is undone, remedied where it can be, and applied once more. How a batch is applied is in batch-applier.ts.

import type { Client } from "pg";
import type { ChangeBatch, TupleForm } from "../../../change/change-batch.ts";
import { type Lsn, lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { ErrorCode } from "../../../errors/error-codes.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { SinkEvents } from "../../sink.ts";
import { moveCheckpoint } from "../bookkeeping/bookkeeping.ts";
import { isReplaced, type TablesByName } from "../bookkeeping/replaced-tables.ts";
import type { SetAsideTables } from "../bookkeeping/set-aside-tables.ts";
import { mendDenial } from "../checks/privileges.ts";
import { type Remedy, remedyFor, type Tried } from "../checks/remedy.ts";
import type { OwedRowNotes } from "../copy/owed-rows.ts";
import { describeRefusedRows, withTable } from "../copy/refused-rows.ts";
import type { TouchedKeys } from "../copy/touched-keys.ts";
import type { TableRegistry } from "../schema/table-registry.ts";
import { BatchApplier } from "./batch-applier.ts";
import { checkDeferred, refusedAtEnd } from "./deferred-constraints.ts";
import { longestPrefix } from "./longest-prefix.ts";
import type { MergeSession } from "./merge-session.ts";
import type { PreparedTable } from "./prepared-table.ts";
import { isRowRefused, type RefusedRow, withPlace, withRow } from "./refused-row.ts";
import { isRowsMissing } from "./rows-missing.ts";
import type { RolledBackTo, UndoLog } from "./undo-log.ts";

/** Each COMMIT empties every temporary table of the session, used or not. */
const maxStagingTables = 40;

const refusals: ReadonlySet<ErrorCode> = new Set(["sink_rejected_rows", "sink_schema_mismatch"]);

/** What is known of the connector's tables, and changes with the transaction. */
export interface AppliedTables extends TablesByName {
  readonly registry: TableRegistry;
  readonly setAside: SetAsideTables;
  readonly owed: OwedRowNotes;
  readonly touched: TouchedKeys;
  /** Of what the transaction changes in what is remembered. */
  readonly undo: UndoLog;
}

export class ApplyTransaction {
  /** In which batches come. */
  form: TupleForm = "binary";
  #isOpen = false;
  readonly #staging: MergeSession["staging"] = new Map();
  /** Tables that the source has dropped, and whose last changes do not fit the sink's table. */
  readonly #leftOut = new Set<number>();

  constructor(
    private readonly connectorId: string,
    private readonly strategy: PostgresSinkConfig["migration_strategy"],
    private readonly tables: AppliedTables,
    private readonly makesCopies: boolean,
    private readonly events: SinkEvents,
    /** The last run has ended because rows were refused: until something is durable, no row is trusted to be new. */
    private isCareful: boolean,
  ) {}

  /** It holds what is not committed. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /**
   * Applies the batch. What the server refuses is undone, remedied where it can be, and applied once more; where it cannot be,
   * the transaction holds what the source committed before.
   */
  async apply(client: Client, batch: ChangeBatch): Promise<RefusedRow | null> {
    const isPiece = this.#isOpen;
    // What COMMIT refuses is undone as a whole: of pieces, it could not be applied again.
    const isStrict = isPiece && !batch.endsInTransaction;
    if (!isPiece) await client.query("begin");
    this.#isOpen = true;
    if (batch.count === 0) return null;
    if (isPiece) await this.#setSavepoint(client);
    try {
      await this.#applyAll(client, batch, isPiece, isStrict);
    } catch (error) {
      if (!isRowRefused(error)) throw error;
      return await this.#findRefused(client, batch, isPiece, error as MillraceError, isStrict);
    }
    if (isPiece) await client.query("release savepoint piece");
    // The next piece rolls back to a savepoint of its own.
    for (const state of this.#staging.values()) state.outlivesRollback = true;
    return null;
  }

  /**
   * Behind a COMMIT that was refused, by a constraint that the sink checks there: applies the batch once more, with what can be
   * done about it. Where that is not enough, as `apply`.
   */
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

  /** `isStrict`: with what constraints at the sink would only check at COMMIT. */
  async #applyAll(client: Client, batch: ChangeBatch, isPiece: boolean, isStrict: boolean): Promise<void> {
    const tried = { care: this.isCareful, order: false, look: false };
    while (true) {
      const applier = this.#applier(client, batch, tried);
      let isApplied = false;
      try {
        await applier.apply();
        isApplied = true;
        if (isStrict) await checkDeferred(client);
        return;
      } catch (error) {
        // The copy of a table that was altered while it was caught up with is made again, by the next run.
        const altered = this.tables.registry.takeAltered();
        if (altered !== null) await this.#voidCopy(client, altered);
        const remedy = remedyFor(error, tried, this.strategy);
        if (remedy?.kind === "care" || remedy?.kind === "order" || remedy?.kind === "look")
          tried[remedy.kind] = true;
        else {
          const current = isApplied ? null : applier.current;
          await this.#help(client, current, remedy, error, lsn(batch.transactions.commitLsn[0]!));
          // What earlier pieces hold of the table is to be left out as well.
          if (isPiece && !this.#isOpen) throw beginAgain(current);
        }
        await this.#undo(client, isPiece);
        if (tried.order) await client.query("set constraints all deferred");
      }
    }
  }

  /** Back to where the batch began. */
  async #undo(client: Client, isPiece: boolean): Promise<void> {
    await client.query(isPiece ? "rollback to savepoint piece" : "rollback; begin");
    this.#isOpen = true;
    this.#forgetUncommitted(isPiece ? "savepoint" : "begin");
  }

  /** Which row it was: the server does not say where rows are merged. */
  async #findRefused(
    client: Client,
    batch: ChangeBatch,
    isPiece: boolean,
    refusal: MillraceError,
    isStrict: boolean,
  ): Promise<RefusedRow> {
    let error = refusal;
    const isTaken = async (count: number) => {
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
    // The server does not say more, and an earlier piece cannot be applied again.
    if (isStrict && isPiece && !(await isTaken(0))) throw withPlace(error, batch, 0);
    const at = isStrict ? await refusedAtEnd(batch, isTaken) : await longestPrefix(batch.count, isTaken);
    await this.#undo(client, isPiece);
    const relation = batch.relations[batch.relation[at]!]!;
    const described = await withRow(client, withTable(error, relation), batch, at);
    const transaction = batch.transaction[at]!;
    const rows = batch.transaction.indexOf(transaction);
    const resumeLsn = transaction === 0 || isPiece ? null : lsn(batch.transactions.endLsn[transaction - 1]!);
    const isKept = resumeLsn !== null && (await isTaken(rows));
    return {
      error: described,
      relation,
      commitLsn: lsn(batch.transactions.commitLsn[transaction]!),
      before: isKept ? { resumeLsn, rows } : null,
    };
  }

  /** Commits what was applied, with the checkpoint that it comes to. */
  async commit(client: Client, from: Lsn, to: Lsn): Promise<void> {
    await moveCheckpoint(client, this.connectorId, from, to);
    if (this.#staging.size > maxStagingTables) await this.#dropStaging(client);
    await client.query("commit");
    this.#isOpen = false;
    this.isCareful = false;
    this.tables.undo.committed();
    for (const state of this.#staging.values()) {
      state.dirty = false;
      state.outlivesRollback = true;
    }
  }

  /** Nothing of what it holds counts. What a broken session held the server undoes. */
  async giveUp(client: Client): Promise<void> {
    await client.query("rollback").catch(() => {});
    this.#isOpen = false;
    this.#forgetUncommitted("begin");
  }

  async #setSavepoint(client: Client): Promise<void> {
    await client.query("savepoint piece");
    this.tables.undo.savepoint();
  }

  /**
   * Sees to it that what follows `since` can be applied in spite of `error`, which came of this table; throws where it cannot. A
   * table is set aside in a transaction of its own.
   */
  async #help(
    client: Client,
    relation: Relation | null,
    remedy: Exclude<Remedy, { kind: "care" | "order" | "look" }> | null,
    error: unknown,
    since: Lsn,
  ): Promise<void> {
    if (remedy?.kind === "allow null" && this.tables.registry.allowNull(relation, remedy.column)) return;
    const refusal = remedy?.kind === "set aside" ? remedy.refusal : null;
    if (this.#leaveOut(relation, refusal ?? error)) return;
    // Only another copy brings them back, and the next run makes it.
    if (relation !== null && this.makesCopies && isRowsMissing(error)) await this.#voidCopy(client, relation);
    if (refusal === null || relation === null || relation.isGone) throw error;
    // Else it is a table that a trigger has written to.
    const isOurs = refusal.column === null || relation.columns.some(({ name }) => name === refusal.column);
    if (!isOurs) throw error;
    if (!this.makesCopies) throw refusal;
    await this.giveUp(client);
    // What was to be done before it in the transaction is undone: the SQL has to fit what is there.
    const [now] = await this.tables.registry.checkMigrations(client, [
      { relation, nullColumn: refusal.column },
    ]);
    await this.tables.setAside.add(client, relation, now ?? refusal, since);
  }

  /** A table that the source no longer has must not keep the others: there is nothing to mend it from. */
  #leaveOut(relation: Relation | null, error: unknown): boolean {
    const refusal = describePostgresError(error, "sink", "sink_rejected_rows");
    if (!refusals.has(refusal.code) || !relation?.isGone || this.#leftOut.has(relation.id)) return false;
    this.#leftOut.add(relation.id);
    this.events.warning(
      "dropped tables",
      `Table ${qualifiedName(relation)} was dropped at the source. Its last changes do not fit the sink's table and are left ` +
        `out: ${refusal.message}`,
    );
    return true;
  }

  /** Durable on return: the transaction is given up first. */
  async #voidCopy(client: Client, relation: Relation): Promise<void> {
    await client.query("rollback");
    this.#forgetUncommitted("begin");
    await this.tables.ledger.voidOf(client, relation);
  }

  /** After a rollback, staging tables and changes of tables that the transaction had made are gone. */
  #forgetUncommitted(to: RolledBackTo): void {
    for (const [name, state] of this.#staging) if (!state.outlivesRollback) this.#staging.delete(name);
    this.tables.registry.forgetShapes();
    this.tables.undo.rolledBack(to);
  }

  #applier(client: Client, batch: ChangeBatch, tried: Tried): BatchApplier {
    const session: MergeSession = {
      client,
      form: this.form,
      staging: this.#staging,
      careful: tried.care,
      repeats: false,
      owed: null,
      touched: this.tables.touched,
      inOrder: tried.order,
      warn: (reason) => this.events.warning("rows", reason),
    };
    return new BatchApplier(session, batch, {
      prepare: (relation, at) => this.#prepared(client, relation, at),
      copyOf: (relation) => this.tables.ledger.stateOf(relation),
      isLeftOut: (relation) =>
        this.#leftOut.has(relation.id) ||
        this.tables.setAside.has(relation.id) ||
        isReplaced(relation, this.tables),
      owed: this.tables.owed,
      held: this.tables.held,
      isSuperseded: (relation, at) => this.tables.registry.isSuperseded(relation, at),
    });
  }

  /** A failure says of which table it is. */
  async #prepared(client: Client, relation: Relation, at: Lsn): Promise<PreparedTable> {
    try {
      return await this.tables.registry.prepared(client, relation, this.form, at);
    } catch (error) {
      if (error instanceof MillraceError) throw error;
      throw mendDenial(error, client.user, relation) ?? describeRefusedRows(error, relation, []);
    }
  }

  async #dropStaging(client: Client): Promise<void> {
    const names = [...this.#staging.keys()].map((name) => `pg_temp.${name}`);
    await client.query(`drop table ${names.join(", ")}`);
    this.#staging.clear();
  }
}

function beginAgain(relation: Relation | null): MillraceError {
  const table = relation ? qualifiedName(relation) : "a table";
  return new MillraceError(
    "table_changed",
    `The transaction begins again without ${table}, which is set aside.`,
  );
}
