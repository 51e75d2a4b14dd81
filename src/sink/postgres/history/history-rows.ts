// Makes the rows of a history from changes of one table, in the order of the stream. A row that the batch knows whole goes straight to COPY.
// Where values are missing (the source did not send a large value that it left alone, or sent only the key of a deleted row), the row is
// staged, and filled from the table.

import { type ChangeBatch, ChangeFlag, ChangeKind, type TupleForm } from "../../../change/change-batch.ts";
import { lsn } from "../../../change/lsn.ts";
import { isOldWhole, newTuple, type TupleRef, unchangedColumns } from "../../../change/tuple.ts";
import type { FoldedChange } from "../apply/net-changes.ts";
import { type HistoryBody, type HistoryPlace, historyBody } from "./history-body.ts";
import type { HistoryOp } from "./history-naming.ts";
import type { PreparedHistory } from "./prepared-history.ts";

/** Rows that lack the values of the same columns. */
export interface StagedGroup {
  readonly number: number;
  readonly op: HistoryOp;
  /** Indexes of the relation's columns that are to be filled. */
  readonly missing: readonly number[];
}

const unfolded: FoldedChange = { row: null, before: null, moves: false };

export class HistoryRows {
  readonly direct: HistoryBody;
  readonly staged: HistoryBody;
  /** Of all rows, as they are held: values that the batch has once, and an update left alone, are in each row. */
  bytes = 0;
  readonly #groups = new Map<string, StagedGroup>();
  #place: HistoryPlace = { commitLsn: lsn(0n), commitTimeUs: 0n };
  /** The index of its transaction in the batch. */
  #placeOf = -1;

  constructor(
    private readonly batch: ChangeBatch,
    private readonly history: PreparedHistory,
    form: TupleForm,
  ) {
    this.direct = historyBody(form);
    this.staged = historyBody(form);
  }

  get groups(): readonly StagedGroup[] {
    return [...this.#groups.values()];
  }

  /** Adds the rows of change `i`. `folded`: what the batch knows of it. */
  add(i: number, { row, before, moves }: FoldedChange = unfolded): void {
    const { batch } = this;
    const { arena } = batch;
    switch (batch.kind[i]) {
      case ChangeKind.insert:
        this.#whole(i, "c", { bytes: arena, start: batch.newStart[i]!, end: batch.newEnd[i]! });
        return;
      case ChangeKind.delete:
        this.#deleted(i, before);
        return;
      case ChangeKind.update: {
        const after = row ?? newTuple(batch, i, this.history.key);
        if (moves || this.history.key.length === 0) this.#deleted(i, before);
        this.#updated(i, after, moves || this.history.key.length === 0 ? 1 : 0);
        return;
      }
    }
  }

  /** Frees the memory. */
  release(): void {
    this.direct.release();
    this.staged.release();
  }

  #deleted(i: number, before: TupleRef | null): void {
    const { batch, history } = this;
    const isWhole = isOldWhole(batch, i, batch.relations[batch.relation[i]!]!);
    const sent = { bytes: batch.arena, start: batch.oldStart[i]!, end: batch.oldEnd[i]! };
    const old = isWhole || before === null ? sent : before;
    const unknown = old === sent ? history.outsideKey : unchangedColumns(old.bytes, old.start);
    // Without a key nothing tells which row it was: what was sent is all that there is of it.
    const missing = isWhole || history.key.length === 0 ? [] : unknown;
    if (missing.length === 0) this.#whole(i, "d", old);
    else this.#partial(i, "d", old, missing, 0);
  }

  #updated(i: number, after: TupleRef, step: number): void {
    const hasUnchanged = (this.batch.flags[i]! & ChangeFlag.hasUnchanged) !== 0;
    const missing = hasUnchanged ? unchangedColumns(after.bytes, after.start) : [];
    if (missing.length === 0) this.#whole(i, "u", after, step);
    else this.#partial(i, "u", after, missing, step);
  }

  #whole(i: number, op: HistoryOp, tuple: TupleRef, step = 0): void {
    this.bytes += tuple.end - tuple.start;
    this.direct.add(this.history.ofTuple(tuple), op, this.#placeAt(i), this.#ordinal(i) + step);
  }

  #partial(i: number, op: HistoryOp, tuple: TupleRef, missing: readonly number[], step: number): void {
    const known = `${op} ${missing.join()}`;
    const group = this.#groups.get(known) ?? { number: this.#groups.size, op, missing };
    this.#groups.set(known, group);
    const { number } = group;
    this.bytes += tuple.end - tuple.start;
    this.staged.add(this.history.ofTuple(tuple), number, this.#placeAt(i), this.#ordinal(i) + step, true);
  }

  /** Doubled, so that a change of key can be two rows. */
  #ordinal(i: number): number {
    return this.batch.ordinal[i]! * 2;
  }

  #placeAt(i: number): HistoryPlace {
    const { transaction, transactions } = this.batch;
    const of = transaction[i]!;
    if (of !== this.#placeOf) {
      this.#placeOf = of;
      const { commitLsn, commitTimeUs } = transactions;
      this.#place = { commitLsn: lsn(commitLsn[of]!), commitTimeUs: commitTimeUs[of]! };
    }
    return this.#place;
  }
}
