// The rows that a batch gives to histories. Changes that are applied give theirs before they are written to their table. Changes that a copy
// brought already are not applied, and give theirs all the same: a history has every change.

import { type ChangeBatch, ChangeKind } from "../../../change/change-batch.ts";
import type { Relation } from "../../../change/relation.ts";
import type { MergeSession } from "../apply/merge-session.ts";
import { type FoldedChange, NetChanges } from "../apply/net-changes.ts";
import type { PreparedTable } from "../apply/prepared-table.ts";
import { HistoryRows } from "./history-rows.ts";
import { writeHistory, writeSingle, writeTruncated } from "./history-write.ts";
import type { PreparedHistory } from "./prepared-history.ts";

export interface BatchHistories {
  /** The history as it takes rows of changes that are applied to this table; null: it takes none. */
  ofTable(table: PreparedTable): Promise<PreparedHistory | null>;
  /** The history as it takes rows of changes that a copy of the table has already; null: it takes none. */
  ofSkipped(relation: Relation): Promise<PreparedHistory | null>;
}

interface Skipped {
  readonly relation: Relation;
  readonly history: PreparedHistory;
  net: NetChanges | null;
  rows: HistoryRows;
}

/** A row is held with values that the batch has once and many updates left alone: more than the batch itself, without an end. */
const mostHeldBytes = 24 * 1024 * 1024;

export class BatchHistory {
  readonly #applied = new Map<PreparedTable, PreparedHistory>();
  /** By index of the relation in the batch; null: its history takes nothing. */
  readonly #skipped = new Map<number, Skipped | null>();
  /** Of rows that wait for their tables' changes to be written. */
  #heldBytes = 0;

  constructor(
    private readonly session: MergeSession,
    private readonly batch: ChangeBatch,
    private readonly histories: BatchHistories,
    /** Called before rows of skipped changes are written: a failure is of this table. */
    private readonly turnsTo: (relation: Relation) => void,
  ) {}

  /** Call it when a table is prepared, before its changes. */
  async prepare(table: PreparedTable): Promise<void> {
    await this.flushSkipped();
    const history = await this.histories.ofTable(table);
    if (history) this.#applied.set(table, history);
  }

  has(table: PreparedTable): boolean {
    return this.#applied.has(table);
  }

  /** Takes the rows of changes of the table that are folded; null: its history takes none. */
  rowsFor(table: PreparedTable): HistoryRows | null {
    const history = this.#applied.get(table);
    return history ? new HistoryRows(this.batch, history, this.session.form) : null;
  }

  /** Adds the rows of change `i`. `folded`: what the batch knows of it. */
  add(rows: HistoryRows, i: number, folded?: FoldedChange): void {
    const before = rows.bytes;
    rows.add(i, folded);
    this.#heldBytes += rows.bytes - before;
  }

  /** What was added has to be written before more is. */
  get isFull(): boolean {
    return this.#heldBytes > mostHeldBytes;
  }

  async write(table: PreparedTable, rows: HistoryRows): Promise<void> {
    this.#heldBytes -= rows.bytes;
    await writeHistory(this.session, this.#applied.get(table)!, rows);
  }

  /** The change is about to be applied by itself. */
  async single(table: PreparedTable, i: number): Promise<void> {
    const history = this.#applied.get(table);
    if (history) await writeSingle(this.session, history, this.batch, i);
  }

  async truncated(table: PreparedTable, i: number): Promise<void> {
    const history = this.#applied.get(table);
    if (history) await writeTruncated(this.session, history, this.batch, i);
  }

  /** It is known of the relation at this index that no history takes its changes that are not applied. */
  leavesOut(at: number): boolean {
    return this.#skipped.get(at) === null;
  }

  /** A change of the relation at this index was not applied. */
  hasSkipped(at: number): boolean {
    return this.#skipped.has(at);
  }

  /** The change is not applied, as a copy of its table has it, or the table is gone. `at`: the index of its relation. */
  async skip(at: number, i: number): Promise<void> {
    let skipped = this.#skipped.get(at);
    if (skipped === undefined) {
      skipped = await this.#begin(this.batch.relations[at]!);
      this.#skipped.set(at, skipped);
    }
    if (skipped === null || this.batch.kind[i] === ChangeKind.shape) return;
    if (this.batch.kind[i] === ChangeKind.truncate) {
      await this.#flush(skipped);
      await writeTruncated(this.session, skipped.history, this.batch, i);
      return;
    }
    if (this.#fold(skipped, i)) {
      if (skipped.rows.bytes > mostHeldBytes) await this.#flush(skipped);
      return;
    }
    await this.#flush(skipped);
    if (!this.#fold(skipped, i)) await writeSingle(this.session, skipped.history, this.batch, i);
  }

  async flushSkipped(): Promise<void> {
    for (const skipped of this.#skipped.values()) if (skipped) await this.#flush(skipped);
  }

  async #begin(relation: Relation): Promise<Skipped | null> {
    // First: the history may have rows of another shape of the table that are yet to be written, and follows this one now.
    await this.flushSkipped();
    const history = await this.histories.ofSkipped(relation);
    if (history === null) return null;
    return { relation, history, ...this.#fresh(relation, history) };
  }

  #fresh({ key, isKeyedByHash }: Relation, history: PreparedHistory): Pick<Skipped, "net" | "rows"> {
    const net =
      key.length === 0
        ? null
        : new NetChanges(key, this.batch.arena, isKeyedByHash === true, Number.POSITIVE_INFINITY, true);
    return { net, rows: new HistoryRows(this.batch, history, this.session.form) };
  }

  #fold({ net, rows }: Skipped, i: number): boolean {
    const isFolded = net === null || net.add(this.batch, i);
    if (isFolded) rows.add(i, net?.folded);
    return isFolded;
  }

  async #flush(skipped: Skipped): Promise<void> {
    this.turnsTo(skipped.relation);
    await writeHistory(this.session, skipped.history, skipped.rows);
    Object.assign(skipped, this.#fresh(skipped.relation, skipped.history));
  }
}
