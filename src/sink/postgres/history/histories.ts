// The histories of a connector's tables: which tables have one, and whether it takes changes now. Makes them, and compares them with their
// tables.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import type { RowKey } from "../../../change/copy-part.ts";
import { formatLsn, type Lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { PreparedTable } from "../apply/prepared-table.ts";
import type { UndoLog } from "../apply/undo-log.ts";
import type { CopyLedger } from "../bookkeeping/copy-ledger.ts";
import { MigrationRefused } from "../refusals/migration-refused.ts";
import { StagingNames } from "../schema/staging-names.ts";
import type { TargetName } from "../schema/target-name.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import { readTargetTable, type TargetTable } from "../schema/target-table.ts";
import type { BatchHistories } from "./batch-history.ts";
import { readHistory, requireOwnColumns, requireOwnName } from "./history-check.ts";
import { HistoryFit } from "./history-fit.ts";
import {
  HistoryLedger,
  type HistoryRecord,
  interrupted,
  reconciled,
  shownColumns,
  takesRows,
} from "./history-ledger.ts";
import type { WantedColumn } from "./history-migration.ts";
import { historyName } from "./history-naming.ts";
import { columnsToBe, wantedColumns } from "./history-schema.ts";
import { type PreparedHistory, prepareHistory } from "./prepared-history.ts";
import { type ReconcilePlace, reconcile, reconcileKeys } from "./reconcile.ts";

/** Whether the catalog asks for the history of the source's table of this name; null: it does not list it. */
export type HistoryAsked = (schema: string, name: string) => boolean | null;

export interface HistoryRules {
  readonly asked: HistoryAsked;
  readonly suffix: string;
  /** Tables get copies, so that a history begins with their rows. */
  readonly makesCopies: boolean;
  /** Null: it is over. */
  readonly warn: (topic: "history" | "histories", reason: string | null) => void;
}

/** In the transaction of the copy. The rows with these keys are as of `place`. */
export type TakeCopiedRows = (
  client: Client,
  table: TargetTable,
  place: ReconcilePlace,
  keys: readonly RowKey[],
) => Promise<void>;

export class Histories {
  readonly #ledger: HistoryLedger;
  readonly #fit: HistoryFit;
  /** The source's tables, as they were when they were prepared last. */
  #present: ReadonlyMap<number, TableShape> = new Map();
  /** Those of them that have a history: few, where there are thousands. */
  #asked: readonly TableShape[] = [];
  readonly #staging = new StagingNames();
  readonly #prepared = new WeakMap<PreparedTable, PreparedHistory>();
  /** The latest time of the source that is known, in microseconds since 1970; 0: none is. */
  #timeUs = 0n;

  constructor(
    connectorId: string,
    private readonly rules: HistoryRules,
    private readonly naming: TargetNaming,
    private readonly copies: CopyLedger,
    undo: UndoLog,
    /** Whether the table at the sink has the relation's shape. */
    private readonly isFollowed: (relation: Relation) => boolean,
  ) {
    this.#ledger = new HistoryLedger(connectorId, undo);
    this.#fit = new HistoryFit(
      this.#ledger,
      (id) => this.#present.has(id),
      (reason) => rules.warn("histories", reason),
    );
  }

  async load(client: Client): Promise<void> {
    await this.#ledger.load(client);
  }

  /** The connector begins anew, maybe with another database: histories are known by their names then. */
  forget(): void {
    this.#ledger.forgetAll();
  }

  /** OIDs of the tables that have a history. */
  get tableIds(): ReadonlySet<number> {
    return new Set(this.#asked.map(({ relation }) => relation.id));
  }

  /**
   * Whether the catalog asks for the table's history. Where a table was renamed, and the catalog does not list its new name, what it says of the
   * one before counts.
   */
  isAsked({ id, schema, name }: Relation): boolean {
    const asked = this.rules.asked(schema, name);
    if (asked !== null) return asked;
    const before = this.#ledger.of(id)?.asked;
    const isRenamed = before !== undefined && (before.schema !== schema || before.name !== name);
    return isRenamed && this.rules.asked(before.schema, before.name) === true;
  }

  /** Takes all tables of the source. Returns whether histories are no longer asked for: then `switchOff` must be called. */
  adopt(tables: readonly TableShape[]): boolean {
    this.#present = new Map(tables.map((table) => [table.relation.id, table]));
    this.#asked = tables.filter(({ relation }) => this.isAsked(relation));
    return this.#switchedOff.length > 0;
  }

  /** In the open transaction: from here on these histories miss changes. */
  async switchOff(client: Client): Promise<void> {
    for (const record of this.#switchedOff) await this.#ledger.write(client, interrupted(record));
  }

  /** In the open transaction: from here on the table's history misses changes, until it is compared with the next copy. */
  async interrupt(client: Client, { id }: Relation): Promise<void> {
    const record = this.#ledger.of(id);
    if (record) await this.#ledger.write(client, interrupted(record));
  }

  get #switchedOff(): readonly HistoryRecord[] {
    return this.#ledger.all.filter(({ tableId, asked, isBegun, isReconciled }) => {
      const relation = this.#present.get(tableId)?.relation;
      // What the stream has still to bring of a table that was dropped belongs to its history.
      const isWanted = relation
        ? this.isAsked(relation)
        : this.rules.asked(asked.schema, asked.name) === true;
      return (isBegun || isReconciled) && !isWanted;
    });
  }

  /** Names at the sink that histories have, or are to have, each once. */
  namesOf(tables: readonly TableShape[]): readonly TargetName[] {
    const names = tables.flatMap(({ relation }) => {
      if (!this.isAsked(relation)) return [];
      const known = this.#ledger.of(relation.id)?.history;
      return [this.#nameOf(relation), ...(known ? [known] : [])];
    });
    return [...new Map(names.map((name) => [sqlName(name), name])).values()];
  }

  /**
   * For one batch, in the open transaction. `at`: its first commit. `leftOut`: tables that are gone, and whose last changes they or their histories
   * have refused.
   */
  inBatch(client: Client, form: TupleForm, at: Lsn, leftOut: ReadonlySet<number>): BatchHistories {
    return {
      ofTable: async (table) => {
        if (!this.#takesChanges(table.relation)) return null;
        const known = this.#prepared.get(table);
        if (known) return known;
        const prepared = await this.#prepare(client, table.relation, form, at);
        if (prepared) this.#prepared.set(table, prepared);
        return prepared;
      },
      ofSkipped: async (relation) => {
        if (leftOut.has(relation.id) || !this.#takesChanges(relation)) return null;
        return await this.#prepare(client, relation, form, at, false);
      },
    };
  }

  /** `isApplied`: the table has the rows that the changes are of. */
  async #prepare(
    client: Client,
    relation: Relation,
    form: TupleForm,
    at: Lsn,
    isApplied = true,
  ): Promise<PreparedHistory | null> {
    const isBegun = this.#ledger.of(relation.id)?.isBegun === true;
    let record = await this.#fitted(client, relation);
    if (!record.isBegun) return null;
    // It begins without a comparison.
    if (!isBegun) record = await this.#inOrder(client, relation, record, at);
    const table = await readTargetTable(client, this.naming.target(relation));
    const history = await readTargetTable(client, record.history);
    if (!history) throw new Error("a history is not there after it was made");
    const staging = `${this.#staging.of(record.history, relation)}_history${isApplied ? "" : "_alone"}`;
    const { columns: followed } = record;
    return prepareHistory({ relation, table, isApplied, history, followed, form, staging });
  }

  /** From its beginning on, a history takes every change of the stream. Without copies it begins with the first one. */
  #takesChanges(relation: Relation): boolean {
    if (!this.isAsked(relation)) return false;
    if (!this.rules.makesCopies && !this.copies.holds(relation)) return true;
    return this.#ledger.of(relation.id)?.isBegun === true;
  }

  /** Why the table's history cannot take rows; null: it can. */
  async check(client: Client, relation: Relation): Promise<MigrationRefused | null> {
    if (!this.isAsked(relation)) return null;
    const name = this.#nameOf(relation);
    const record = this.#ledger.of(relation.id);
    try {
      const table = await readTargetTable(client, this.naming.target(relation));
      requireOwnColumns(name, relation);
      await requireOwnName(client, name);
      const wanted = table ? await wantedColumns(client, table, relation) : null;
      const followed = record?.columns ?? [];
      if (wanted) await readHistory(client, { name: record?.history ?? name, followed, wanted });
      return null;
    } catch (error) {
      if (error instanceof MigrationRefused) return error;
      throw error;
    }
  }

  /** A copy of the table, or of rows of it, is durable. */
  copied({ id }: Relation, isBehind: boolean): void {
    if (isBehind) this.#ledger.copied(id);
  }

  /** Gives a history what it lacks of rows that are copied by their keys; null: it is to be compared with the whole table, if there is one. */
  rowsCopied(relation: Relation): TakeCopiedRows | null {
    const record = this.#ledger.of(relation.id);
    if (!this.isAsked(relation) || !record || !takesRows(record, relation)) return null;
    const { history, key } = record;
    return (client, table, place, keys) =>
      reconcileKeys(client, { table, relation, history, key, columns: shownColumns(record) }, place, keys);
  }

  /** Tables of which the history is to be compared with their copy. */
  get unreconciled(): readonly TableShape[] {
    return this.#asked.filter(
      ({ relation }) => this.copies.holds(relation) && this.#ledger.of(relation.id)?.isReconciled !== true,
    );
  }

  /**
   * In the open transaction. The table's rows are as of `at`: appends what differs to its history, which gets the table's changes from there on.
   */
  async reconcile(client: Client, { relation }: TableShape, at: Lsn): Promise<void> {
    const name = qualifiedName(relation);
    this.rules.warn("history", `The history of ${name} is compared with its rows. The stream waits.`);
    try {
      const record = await this.#inOrder(client, relation, await this.#fitted(client, relation), at);
      const table = await readTargetTable(client, this.naming.target(relation));
      if (!table) throw new Error("the table of a history is not there");
      const { history, key } = record;
      const place = { at, timeUs: this.#timeUs };
      await reconcile(client, { table, relation, history, key, columns: shownColumns(record) }, place);
      await this.#ledger.write(client, reconciled(record));
    } finally {
      this.rules.warn("history", null);
    }
  }

  /** Takes note of a time of the source's clock, in microseconds since 1970. The latest one counts. */
  sawTime(timeUs: bigint): void {
    if (timeUs > this.#timeUs) this.#timeUs = timeUs;
  }

  /** Where the history has changes from behind `at`, a new one takes its place. */
  async #inOrder(client: Client, relation: Relation, record: HistoryRecord, at: Lsn): Promise<HistoryRecord> {
    if (!(await isAheadOf(client, record.history, at))) return record;
    await this.#fit.setAside(client, record);
    const anew = await this.#fitted(client, relation);
    this.rules.warn("histories", beginsAnew(qualifiedName(relation), anew.history, at));
    return anew;
  }

  async #fitted(client: Client, relation: Relation): Promise<HistoryRecord> {
    const target = this.naming.target(relation);
    const isBegun = !this.rules.makesCopies && !this.copies.holds(relation);
    const { id, schema, name } = relation;
    const before = this.rules.asked(schema, name) === null ? this.#ledger.of(id)?.asked : null;
    const asked = before ?? { schema, name };
    const wanted = await this.#wanted(client, relation);
    const followed = { target, relation, wanted, name: this.#nameOf(relation), asked, isBegun };
    return await this.#fit.follow(client, followed);
  }

  /** With the types of the table at the sink; where that has yet to follow the source's, with those that it is to get. */
  async #wanted(client: Client, relation: Relation): Promise<readonly WantedColumn[]> {
    const table = await readTargetTable(client, this.naming.target(relation));
    const isFollowing = table !== null && this.isFollowed(relation);
    return isFollowing ? await wantedColumns(client, table, relation) : await columnsToBe(client, relation);
  }

  #nameOf(relation: Relation): TargetName {
    return historyName(this.naming.target(relation), this.rules.suffix);
  }
}

async function isAheadOf(client: Client, history: TargetName, at: Lsn): Promise<boolean> {
  const { rows } = await client.query<{ isAhead: boolean | null }>(
    `select max(_sm_lsn) > $1::pg_lsn as "isAhead" from ${sqlName(history)}`,
    [formatLsn(at)],
  );
  return rows[0]?.isAhead === true;
}

function beginsAnew(name: string, history: TargetName, at: Lsn): string {
  return (
    `The history of ${name} has changes from behind ${formatLsn(at)}, where the source is now: it is another server, or was set back. ` +
    `A new history begins in ${qualifiedName(history)}; the one before keeps its rows under another name.`
  );
}
