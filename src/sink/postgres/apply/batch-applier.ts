// Applies a batch inside the caller's transaction: sorts its changes by table, and cuts it only where order between
// tables or shapes matters (TRUNCATE, a new shape of a table, a change that stands alone).

import { type ChangeBatch, ChangeFlag, ChangeKind } from "../../../change/change-batch.ts";
import { type Lsn, lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { mendDenial } from "../checks/privileges.ts";
import type { HeldChanges } from "../copy/held-changes.ts";
import type { OwedRowNotes } from "../copy/owed-rows.ts";
import { describeRefusedRows } from "../copy/refused-rows.ts";
import { withLateChecks } from "./late-checks.ts";
import type { MergeSession } from "./merge-session.ts";
import { InsertRuns, longValueBytes, NetChanges } from "./net-changes.ts";
import type { CopyState, PreparedTable } from "./prepared-table.ts";
import { applySingle, isSingle } from "./single-change.ts";
import { insertRuns, mergeNetChanges } from "./table-merge.ts";
import { truncateTables } from "./truncation.ts";

type Pending = { readonly table: PreparedTable; readonly rows: InsertRuns | NetChanges };

/** What an applier asks of its tables. */
export interface ApplierTables {
  /** `at`: the commit record of the first change that the relation is prepared for. */
  prepare(relation: Relation, at: Lsn): Promise<PreparedTable>;
  /** How the changes of a relation's table stand to its copy. */
  copyOf(relation: Relation): CopyState;
  /** Whether the changes of the relation's table are left out. */
  isLeftOut(relation: Relation): boolean;
  /** Whether the copy, made later, is all that can be had of the relation's changes: its target cannot follow them. */
  isSuperseded(relation: Relation, at: Lsn): boolean;
  /** Rows that the tables' copies lack. */
  readonly owed: OwedRowNotes;
  /** Changes that cannot be applied yet. */
  readonly held: HeldChanges;
}

export class BatchApplier {
  /** By index of the relation in the batch. */
  readonly #tables: PreparedTable[] = [];
  readonly #pending = new Map<number, Pending>();
  #current: Relation | null = null;
  /** Changes that are kept for later. */
  readonly #kept: number[] = [];
  readonly #onlyInserts: readonly boolean[];
  /** No change of the batch was committed before. Asked for each row, it is not to be made anew for each. */
  readonly #since: Lsn;

  constructor(
    private readonly session: MergeSession,
    private readonly batch: ChangeBatch,
    private readonly tables: ApplierTables,
  ) {
    this.#onlyInserts = relationsWithInsertsOnly(batch);
    this.#since = lsn(batch.transactions.commitLsn[0] ?? 0n);
  }

  /** Whose changes were being applied last: those that failed. */
  get current(): Relation | null {
    return this.#current;
  }

  async apply(): Promise<void> {
    const { batch } = this;
    for (let i = 0; i < batch.count; i++) {
      const at = batch.relation[i]!;
      if (this.#keep(i)) continue;
      // First: a table that has followed its copy's shape must not be made to fit an earlier one.
      if (this.#isPassedOver(at, i)) continue;
      const table = this.#tables[at] ?? (await this.#enter(at, i));
      if (batch.kind[i] === ChangeKind.shape) continue;
      if (table.isShared) await this.#takeTurn(at, table);
      if (batch.kind[i] === ChangeKind.truncate) {
        await this.#flush();
        i = await this.#truncate(i);
      } else if (isSingle(batch, i, table)) {
        await this.#flushBefore(at, table);
        await this.#single(table, i);
      } else if (!this.#fold(at, table, i)) {
        await this.#flushBefore(at, table);
        // An insert only had to wait for what was there under the same key.
        if (batch.kind[i] === ChangeKind.insert) this.#fold(at, table, i);
        else await this.#single(table, i);
      }
      if (this.session.inOrder) await this.#flush();
    }
    await this.#flush();
    if (this.#kept.length > 0) await this.tables.held.keep(this.session.client, batch, this.#kept);
  }

  /** Whether the change is kept for later. */
  #keep(i: number): boolean {
    const isKept = this.tables.held.has(this.batch.relations[this.batch.relation[i]!]!.id);
    if (isKept) this.#kept.push(i);
    return isKept;
  }

  /**
   * A relation's first change in the batch. What another shape of the same table left is written first; and what is left of
   * another table that had the name, while the sink's table still has it.
   */
  async #enter(at: number, i: number): Promise<PreparedTable> {
    const relation = this.batch.relations[at]!;
    const name = qualifiedName(relation);
    const isInTheWay = (other: Relation) => other.id === relation.id || qualifiedName(other) === name;
    if (this.#tables.some((table) => table && isInTheWay(table.relation))) await this.#flush();
    this.#current = relation;
    const table = await this.tables.prepare(relation, this.#commitLsn(i));
    // One whose name it has got is elsewhere at the sink by now: a row that still comes of it is prepared for anew.
    this.#tables.forEach((other, i) => {
      if (other.relation.id !== relation.id && qualifiedName(other.relation) === name) delete this.#tables[i];
    });
    this.#tables[at] = table;
    await this.session.touched.entered(this.session.client, relation);
    return table;
  }

  /** The change is in the table's copy already, or its table is left out: nothing is to be done about it. */
  #isPassedOver(at: number, i: number): boolean {
    const relation = this.batch.relations[at]!;
    const table = this.#tables[at];
    if (!table && this.tables.isLeftOut(relation)) return true;
    const copy = table?.copy ?? this.tables.copyOf(relation);
    if (copy.kind === "none" || this.#since >= copy.point || this.#commitLsn(i) >= copy.point) return false;
    if (copy.kind === "exact" || (copy.first !== null && this.#commitLsn(i) < copy.first)) return true;
    return !table && this.#isSuperseded(relation, i);
  }

  /** The copy was put over what is there. It has each row that stands, and does not tell which are gone. */
  #isSuperseded(relation: Relation, i: number): boolean {
    if (!this.tables.isSuperseded(relation, this.#commitLsn(i))) return false;
    if (this.batch.oldEnd[i]! > this.batch.oldStart[i]!) {
      this.session.warn(
        `Rows of ${qualifiedName(relation)} that were deleted, or got another key, before the table was altered may be left at the ` +
          "sink, where its table has rows of others too: compare them, and delete there those that no table of the source has.",
      );
    }
    return true;
  }

  #commitLsn(i: number): Lsn {
    return lsn(this.batch.transactions.commitLsn[this.batch.transaction[i]!]!);
  }

  /** The session for one table: with care where equal rows are one, and while its merged copy is caught up with, from change `i` on. */
  #sessionFor(table: PreparedTable, i = 0): MergeSession {
    const { copy } = table;
    const mayLack = copy.kind === "merged" && copy.first !== null;
    const lacks = mayLack && this.tables.owed.has(table.relation.id);
    if (copy.kind === "merged" && (lacks || this.#commitLsn(i) < copy.point)) {
      return { ...this.session, careful: true, repeats: true, owed: mayLack ? this.tables.owed : null };
    }
    return table.relation.isKeyedByHash ? { ...this.session, careful: true } : this.session;
  }

  async #single(table: PreparedTable, i: number): Promise<void> {
    await this.#run(table, () => applySingle(this.#sessionFor(table, i), table, this.batch, i));
  }

  /** A row may move between tables that share a target: what the one has of it is written before what the other has. */
  async #takeTurn(at: number, table: PreparedTable): Promise<void> {
    if (this.#pending.has(at)) return;
    const others = [...this.#pending.values()].some(({ table: other }) => isSameTarget(other, table));
    if (others) await this.#flush();
  }

  #fold(at: number, table: PreparedTable, i: number): boolean {
    let pending = this.#pending.get(at);
    if (!pending) {
      const { isKeyedByHash = false } = table.relation;
      const isNoted = this.session.touched.allOf(table.relation).length > 0;
      const isPlain = table.key.length === 0 || (this.#onlyInserts[at] && !isKeyedByHash && !isNoted);
      // A row that is known to be there keeps what it has; where it is not, all of it is put there, with care.
      const isThere = table.copy.kind === "exact" && !this.session.careful && !isKeyedByHash;
      const longestTaken = isThere ? longValueBytes : Number.POSITIVE_INFINITY;
      const rows = isPlain
        ? new InsertRuns()
        : new NetChanges(table.key, this.batch.arena, isKeyedByHash, longestTaken);
      pending = { table, rows };
      this.#pending.set(at, pending);
    }
    const { rows } = pending;
    if (rows instanceof NetChanges) return rows.add(this.batch, i);
    rows.add(this.batch, i);
    return true;
  }

  async #flush(): Promise<void> {
    await this.#write([...this.#pending.values()]);
    this.#pending.clear();
  }

  /** What a change of this table by itself must not come before: its own rows, and those of tables that order ties to others. */
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
    // Rows that others refer to come before them, and go after them.
    const deletes: { readonly table: PreparedTable; readonly later: (() => Promise<void>)[] }[] = [];
    for (const { table, rows } of pending) {
      const later: (() => Promise<void>)[] = [];
      await this.#run(table, () =>
        rows instanceof NetChanges
          ? mergeNetChanges(this.#sessionFor(table), table, rows, hasOrder ? later : null)
          : insertRuns(this.#sessionFor(table), table, rows),
      );
      deletes.unshift({ table, later });
    }
    for (const { table, later } of deletes) for (const run of later) await this.#run(table, run);
  }

  /** One statement for all tables that one TRUNCATE named. Returns the index of its last change. */
  async #truncate(first: number): Promise<number> {
    const { batch } = this;
    const targets: PreparedTable[] = [];
    let last = first;
    for (let i = first; i < batch.count && belongsTo(batch, i, first); i++) {
      const at = batch.relation[i]!;
      if (!this.#keep(i) && !this.#isPassedOver(at, i))
        targets.push(this.#tables[at] ?? (await this.#enter(at, i)));
      last = i;
    }
    const { client, touched } = this.session;
    for (const { relation } of targets) await touched.spoilWith(client, relation.id, "was truncated");
    const restart = (batch.flags[first]! & ChangeFlag.restartIdentity) !== 0;
    for (const { relation } of targets.filter(({ isShared }) => isShared)) {
      this.session.warn(
        `TRUNCATE of ${qualifiedName(relation)} was left out: rows of other tables are in its table at the sink.`,
      );
    }
    const own = targets.filter(({ isShared }) => !isShared);
    const table = own[0];
    if (table) await this.#run(table, () => truncateTables(client, own, restart));
    return last;
  }

  async #run(table: PreparedTable, action: () => Promise<unknown>): Promise<void> {
    this.#current = table.relation;
    try {
      await withLateChecks(this.session.client, table, action);
    } catch (error) {
      throw (
        mendDenial(error, this.session.client.user, table.target) ??
        describeRefusedRows(error, table.target, table.columnNames)
      );
    }
  }
}

function isSameTarget(one: PreparedTable, other: PreparedTable): boolean {
  return one.target.schema === other.target.schema && one.target.name === other.target.name;
}

function belongsTo(batch: ChangeBatch, i: number, first: number): boolean {
  return (
    batch.kind[i] === ChangeKind.truncate &&
    batch.transaction[i] === batch.transaction[first] &&
    batch.newStart[i] === batch.newStart[first]
  );
}

function relationsWithInsertsOnly(batch: ChangeBatch): readonly boolean[] {
  const onlyInserts = batch.relations.map(() => true);
  for (let i = 0; i < batch.count; i++) {
    if (batch.kind[i] !== ChangeKind.insert && batch.kind[i] !== ChangeKind.shape)
      onlyInserts[batch.relation[i]!] = false;
  }
  return onlyInserts;
}
