// Applies a batch inside the caller's transaction. It groups changes by table, and writes them early only where order between tables or
// shapes matters: at a TRUNCATE, a new shape of a table, or a change that must be applied alone.

import { type ChangeBatch, ChangeFlag, ChangeKind } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import type { IncompleteRows } from "../bookkeeping/incomplete-rows.ts";
import { describeDenial } from "../checks/privileges.ts";
import { type BatchHistories, BatchHistory } from "../history/batch-history.ts";
import type { HistoryRows } from "../history/history-rows.ts";
import { describeRefusedRows } from "../refusals/refused-rows.ts";
import { CopiedChanges, type KnownCopies } from "./copied-changes.ts";
import { withLateChecks } from "./late-checks.ts";
import type { MergeSession } from "./merge-session.ts";
import { InsertRuns, longValueBytes, NetChanges, relationsWithInsertsOnly } from "./net-changes.ts";
import { outOfDate, type PreparedTable } from "./prepared-table.ts";
import { applySingle, isIdentified, isSingle } from "./single-change.ts";
import { insertRuns, mergeNetChanges } from "./table-merge.ts";
import { isSameTruncate, truncateTables } from "./truncation.ts";

interface Pending {
  readonly table: PreparedTable;
  readonly rows: InsertRuns | NetChanges;
  /** Null: the table's history takes no changes. */
  history: HistoryRows | null;
}

/** What the applier needs to know of tables. */
export interface ApplierTables extends KnownCopies {
  /** `at`: the commit record of the first change that the relation is prepared for. */
  prepare(relation: Relation, at: Lsn): Promise<PreparedTable>;
  readonly histories: BatchHistories;
  /** Whether the changes of the relation's table are skipped. */
  isSkipped(relation: Relation): boolean;
  /** Rows that the copies lack. */
  readonly incomplete: IncompleteRows;
}

export class BatchApplier {
  /** By index of the relation in the batch. */
  readonly #tables: PreparedTable[] = [];
  readonly #history: BatchHistory;
  readonly #pending = new Map<number, Pending>();
  #current: Relation | null = null;
  readonly #onlyInserts: readonly boolean[];
  readonly #copied: CopiedChanges;

  constructor(
    private readonly session: MergeSession,
    private readonly batch: ChangeBatch,
    private readonly tables: ApplierTables,
  ) {
    const turnsTo = (relation: Relation) => {
      this.#current = relation;
    };
    this.#history = new BatchHistory(session, batch, tables.histories, turnsTo);
    this.#onlyInserts = relationsWithInsertsOnly(batch);
    this.#copied = new CopiedChanges(batch, tables, session.warn);
  }

  /** The relation whose changes were applied last: after a failure, the one that failed. */
  get current(): Relation | null {
    return this.#current;
  }

  /** A table's rows cannot be deleted and inserted again as a whole: where they hand unique values round, only their order helps. */
  get needsOrder(): boolean {
    return this.#tables.some(({ isReferred, isWide }) => isReferred || isWide);
  }

  async apply(): Promise<void> {
    const { batch } = this;
    for (let i = 0; i < batch.count; i++) {
      const at = batch.relation[i]!;
      // Before the table is prepared: a target that follows its copy's shape must not be migrated back to an earlier one.
      if (this.#skips(at, i)) {
        // Without a history there is nothing to wait for, at any row.
        if (!this.#history.leavesOut(at)) await this.#skip(at, i);
        continue;
      }
      const table = this.#tables[at] ?? (await this.#prepareTable(at, i));
      if (batch.kind[i] === ChangeKind.shape) continue;
      if (table.isShared) await this.#flushOthersOfTarget(at, table);
      if (batch.kind[i] === ChangeKind.truncate) {
        await this.#flush();
        i = await this.#truncate(i);
      } else if (isSingle(batch, i, table)) {
        await this.#flushBefore(at, table);
        await this.#single(table, i);
      } else if (!this.#fold(at, table, i)) {
        await this.#flushBefore(at, table);
        // The key's earlier changes are written now, so that an insert can be folded.
        if (batch.kind[i] === ChangeKind.insert) this.#fold(at, table, i);
        else await this.#single(table, i);
      }
      if (this.session.inOrder) await this.#flush();
      else if (this.#history.isFull) await this.#writeHistories();
    }
    await this.#history.flushSkipped();
    await this.#flush();
  }

  /**
   * Prepares the target at a relation's first change in the batch. Pending changes of an earlier shape of the table are written first, and so
   * are those of another table that had its name.
   */
  async #prepareTable(at: number, i: number): Promise<PreparedTable> {
    const relation = this.batch.relations[at]!;
    await this.#flushInTheWay(relation);
    this.#current = relation;
    const table = await this.tables.prepare(relation, this.#copied.commitLsn(i));
    this.#forgetOthersNamed(relation);
    await this.#history.prepare(table);
    this.#current = relation;
    this.#tables[at] = table;
    await this.session.touched.checkShape(this.session.client, relation);
    return table;
  }

  async #flushInTheWay(relation: Relation): Promise<void> {
    const name = qualifiedName(relation);
    const isInTheWay = (other: Relation) => other.id === relation.id || qualifiedName(other) === name;
    if (this.#tables.some((table) => table && isInTheWay(table.relation))) await this.#flush();
  }

  /** Another table that had the name, or its history, was moved aside: if a change of it still comes, it must be prepared again. */
  #forgetOthersNamed(relation: Relation): void {
    const name = qualifiedName(relation);
    this.#tables.forEach((other, i) => {
      if (other.relation.id !== relation.id && qualifiedName(other.relation) === name) delete this.#tables[i];
    });
  }

  /** Whether the change is not to be applied: its table's are left out, or a copy has it. Called for each row, so that it must not wait. */
  #skips(at: number, i: number): boolean {
    if (!this.#tables[at] && this.tables.isSkipped(this.batch.relations[at]!)) return true;
    return this.#copied.has(this.batch.relations[at]!, this.#tables[at], i);
  }

  /** The history of a table gets its changes all the same: those that a copy has or is to bring, and the last ones of a table that is gone. */
  async #skip(at: number, i: number): Promise<void> {
    const relation = this.batch.relations[at]!;
    const isFirst = !this.#history.hasSkipped(at);
    // Its history takes its name, as `#prepareTable` has it for tables.
    if (isFirst) await this.#flushInTheWay(relation);
    this.#current = relation;
    await this.#history.skip(at, i);
    if (isFirst) this.#forgetOthersNamed(relation);
  }

  /**
   * The session for one table. It upserts where equal rows are one row, until the stream has passed the point of a merged copy, and while rows
   * of the table are incomplete. `i`: the first change that is applied by it.
   */
  #sessionFor(table: PreparedTable, i = 0): MergeSession {
    const { copy } = table;
    const mayLack = copy.kind === "merged" && copy.first !== null;
    const lacks = mayLack && this.tables.incomplete.has(table.relation.id);
    if (copy.kind === "merged" && (lacks || this.#copied.commitLsn(i) < copy.point)) {
      return {
        ...this.session,
        upserts: true,
        repeats: true,
        incomplete: mayLack ? this.tables.incomplete : null,
      };
    }
    return table.relation.isKeyedByHash ? { ...this.session, upserts: true } : this.session;
  }

  async #single(table: PreparedTable, i: number): Promise<void> {
    this.#current = table.relation;
    await this.#history.single(table, i);
    if (!isIdentified(this.session, table, this.batch, i)) return;
    await this.#withDescribedErrors(table, () =>
      applySingle(this.#sessionFor(table, i), table, this.batch, i),
    );
  }

  /** A row may move between tables that share a target: the other table's pending changes are written first. */
  async #flushOthersOfTarget(at: number, table: PreparedTable): Promise<void> {
    if (this.#pending.has(at)) return;
    const others = [...this.#pending.values()].some(({ table: other }) => isSameTarget(other, table));
    if (others) await this.#flush();
  }

  #fold(at: number, table: PreparedTable, i: number): boolean {
    let pending = this.#pending.get(at);
    if (!pending) {
      const { isKeyedByHash = false } = table.relation;
      const recordsTouched = this.session.touched.of(table.relation) !== null;
      const isPlain = table.key.length === 0 || (this.#onlyInserts[at] && !isKeyedByHash && !recordsTouched);
      // If the row is known to be there, it keeps its own large unchanged values. Otherwise all values are written.
      const history = this.#history.rowsFor(table);
      const isThere =
        table.copy.kind === "exact" && !this.session.upserts && !isKeyedByHash && history === null;
      // A copy may have the row under its new key already. A table that is out of date may have it under its old one alone.
      const mayHaveMoved = this.#sessionFor(table).repeats && table.copy !== outOfDate;
      const foldsMoves = !table.updatesKeys || mayHaveMoved;
      const longestInlined = isThere ? longValueBytes : Number.POSITIVE_INFINITY;
      const rows = isPlain
        ? new InsertRuns()
        : new NetChanges(
            table.key,
            this.batch.arena,
            isKeyedByHash,
            longestInlined,
            history !== null,
            foldsMoves,
          );
      pending = { table, rows, history };
      this.#pending.set(at, pending);
    }
    const { rows, history } = pending;
    if (rows instanceof NetChanges) {
      const isFolded = rows.add(this.batch, i);
      if (isFolded && history) this.#history.add(history, i, rows.folded);
      return isFolded;
    }
    rows.add(this.batch, i);
    if (history) this.#history.add(history, i);
    return true;
  }

  /** Only the histories' rows: the changes wait for the others of their transaction, whose order between tables counts. */
  async #writeHistories(): Promise<void> {
    for (const pending of this.#pending.values()) {
      if (pending.history === null) continue;
      this.#current = pending.table.relation;
      await this.#history.write(pending.table, pending.history);
      pending.history = this.#history.rowsFor(pending.table);
    }
  }

  async #flush(): Promise<void> {
    await this.#write([...this.#pending.values()]);
    this.#pending.clear();
  }

  /** Before a single change: writes the table's own pending rows, and where foreign keys give an order, those of all tables. */
  async #flushBefore(at: number, table: PreparedTable): Promise<void> {
    const own = this.#pending.get(at);
    const hasOrder = [table, ...[...this.#pending.values()].map((each) => each.table)].some(
      ({ rank }) => rank > 0,
    );
    if (hasOrder || table.isShared) return await this.#flush();
    if (own) await this.#write([own]);
    this.#pending.delete(at);
  }

  async #write(pending: Pending[]): Promise<void> {
    if (pending.length === 0) return;
    const hasOrder = pending.length > 1 && pending.some(({ table }) => table.rank > 0);
    if (hasOrder) pending.sort((a, b) => a.table.rank - b.table.rank);
    // A referenced row is written before the rows that refer to it, and deleted after them.
    const deletes: { readonly table: PreparedTable; readonly later: (() => Promise<void>)[] }[] = [];
    for (const { table, rows, history } of pending) {
      this.#current = table.relation;
      // Before the table's changes: it still has the rows that they are of.
      if (history) await this.#history.write(table, history);
      const later: (() => Promise<void>)[] = [];
      await this.#withDescribedErrors(table, () =>
        rows instanceof NetChanges
          ? mergeNetChanges(this.#sessionFor(table), table, rows, hasOrder ? later : null)
          : insertRuns(this.#sessionFor(table), table, rows),
      );
      deletes.unshift({ table, later });
    }
    for (const { table, later } of deletes)
      for (const run of later) await this.#withDescribedErrors(table, run);
  }

  /** Truncates all tables that one TRUNCATE named, in one statement. Returns the index of its last change. */
  async #truncate(first: number): Promise<number> {
    const { batch } = this;
    const targets: PreparedTable[] = [];
    const changes = new Map<PreparedTable, number>();
    let last = first;
    for (let i = first; i < batch.count && isSameTruncate(batch, i, first); i++) {
      const at = batch.relation[i]!;
      last = i;
      if (this.#skips(at, i)) {
        await this.#skip(at, i);
        continue;
      }
      const table = this.#tables[at] ?? (await this.#prepareTable(at, i));
      targets.push(table);
      changes.set(table, i);
    }
    const { client, touched } = this.session;
    for (const { relation } of targets) await touched.invalidate(client, relation.id, "was truncated");
    const restart = (batch.flags[first]! & ChangeFlag.restartIdentity) !== 0;
    for (const { relation } of targets.filter(({ isShared }) => isShared)) {
      this.session.warn(
        `TRUNCATE of ${qualifiedName(relation)} was left out: rows of other tables are in its table at the sink.`,
      );
    }
    const own = targets.filter(({ isShared }) => !isShared);
    const table = own[0];
    if (table) await this.#withDescribedErrors(table, () => truncateTables(client, own, restart));
    for (const each of own) await this.#history.truncated(each, changes.get(each)!);
    return last;
  }

  async #withDescribedErrors(table: PreparedTable, action: () => Promise<unknown>): Promise<void> {
    this.#current = table.relation;
    try {
      await withLateChecks(this.session.client, table, action);
    } catch (error) {
      throw (
        describeDenial(error, this.session.client.user, table.target) ??
        describeRefusedRows(error, table.target, table.columnNames)
      );
    }
  }
}

function isSameTarget(one: PreparedTable, other: PreparedTable): boolean {
  return one.target.schema === other.target.schema && one.target.name === other.target.name;
}
