// What a receipt keeps of the rows of its request: digests of their keys, what happened to each, and in which transactions. It is gathered
// while rows are added to the request, in numbers alone.

import type { Lsn } from "../../../change/lsn.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import type { RowMoment } from "../../format/idempotency-key.ts";
import { type OperationLetter, operationLetters, operations } from "../../format/operation-letters.ts";
import type { RowContext, RowOperation } from "../../format/row-encoder.ts";
import { identityHash } from "../../format/row-identity.ts";
import type { TupleView } from "../../format/values/tuple-view.ts";
import { checkHash, type KeyDigest } from "./key-digest.ts";

const codes: Readonly<Record<RowOperation, number>> = {
  create: 0,
  update: 1,
  delete: 2,
  read: 3,
  truncate: 4,
};
const partShift = 3;
/** Of a row of which nothing but the first hash is known. */
export const unknownMark = 7;
/** A request that stays in memory keeps the lists that it shares: so many rows at most. */
const mostShared = 256;
const operationMask = (1 << partShift) - 1;

/** A row as it is added to a request. */
interface AddedRow {
  readonly arena: Uint8Array;
  /** Null: a TRUNCATE. */
  readonly identity: TupleView | null;
  readonly context: RowContext;
  readonly moment: RowMoment;
  readonly touches: readonly number[];
}

/** Lists that receipts share: the rows and the runs of each come one after the other, from `first` and `firstRun` on. */
interface SharedLists {
  /** Of each row: `KeyDigest`, and its operation with its part. */
  readonly hashes: ArrayLike<number>;
  readonly checks: ArrayLike<number>;
  readonly marks: ArrayLike<number>;
  /** Transactions, and how many of a receipt's rows are of each. */
  readonly runRows: ArrayLike<number>;
  readonly runLsns: ArrayLike<Lsn>;
  readonly runTimesUs: ArrayLike<number>;
}

export interface KeptRows {
  readonly lists: SharedLists;
  readonly first: number;
  readonly count: number;
  readonly firstRun: number;
  readonly runs: number;
  /** Of each row, where each is a message of its own: its place in its transaction. Null: they are one request. */
  readonly ordinals: ArrayLike<number> | null;
  /** Of each row, where it is a message of Kafka: its partition, and its offset there; NaN: no broker told it. */
  readonly partitions?: ArrayLike<number>;
  readonly offsets?: ArrayLike<number>;
}

/** Requests share lists, because lists of their own cost the garbage collector much where each row is a request. */
export class RowLists implements SharedLists {
  readonly hashes: number[] = [];
  readonly checks: number[] = [];
  readonly marks: number[] = [];
  readonly runRows: number[] = [];
  readonly runLsns: Lsn[] = [];
  readonly runTimesUs: number[] = [];

  /** Another request may have its rows here. A request that stays long keeps all of them in memory. */
  get hasRoom(): boolean {
    return this.hashes.length < mostShared;
  }
}

export class ReceiptRows implements KeptRows {
  readonly first: number;
  readonly firstRun: number;
  count = 0;
  runs = 0;
  readonly ordinals: number[] | null;

  /** Nothing else is added to `lists` while rows are added here. */
  constructor(
    areMessages: boolean,
    readonly lists = new RowLists(),
  ) {
    this.first = lists.hashes.length;
    this.firstRun = lists.runRows.length;
    this.ordinals = areMessages ? [] : null;
  }

  /** Of a table without a key nothing is kept: nobody can ask for one of its rows. */
  add({ relation: { key } }: CompiledTable, { arena, identity, context, moment, touches }: AddedRow): void {
    // Nobody asks for a TRUNCATE by a key. In a request it has a place: parts are cut by the numbers of its rows.
    if (key.length === 0 || (identity === null && this.ordinals !== null)) return;
    const mark = codes[context.operation] | (moment.part << partShift);
    if (identity === null) this.addRow(0, 0, mark);
    else {
      const known =
        touches.length === 1 && touches[0] !== 0 ? touches[0]! : identityHash(arena, identity, key);
      this.addRow(known >>> 0, checkHash(arena, identity, key), mark);
    }
    this.ordinals?.push(moment.ordinal);
    this.addToRun(context.commitLsn, context.commitTimeUs);
  }

  addRow(hash: number, check: number, mark: number): void {
    this.lists.hashes.push(hash);
    this.lists.checks.push(check);
    this.lists.marks.push(mark);
    this.count++;
  }

  /** The row that was added last is of this transaction. */
  addToRun(lsn: Lsn, timeUs: number): void {
    const { runRows, runLsns, runTimesUs } = this.lists;
    const last = runRows.length - 1;
    if (this.runs > 0 && runTimesUs[last] === timeUs && runLsns[last] === lsn) {
      runRows[last]!++;
      return;
    }
    this.runs++;
    runRows.push(1);
    runLsns.push(lsn);
    runTimesUs.push(timeUs);
  }

  /** Those of a part of the request. `rows`: rising indexes. A request whose rows are not kept has no part that keeps them. */
  part(rows: readonly number[]): ReceiptRows {
    const part = new ReceiptRows(this.ordinals !== null);
    if (this.count === 0) return part;
    const { hashes, checks, marks, runRows, runLsns, runTimesUs } = this.lists;
    let run = this.firstRun;
    let end = runRows[run]!;
    for (const row of rows) {
      const at = this.first + row;
      while (row >= end) end += runRows[++run]!;
      part.addRow(hashes[at]!, checks[at]!, marks[at]!);
      if (this.ordinals) part.ordinals?.push(this.ordinals[row]!);
      part.addToRun(runLsns[run]!, runTimesUs[run]!);
    }
    return part;
  }
}

/** In which transaction row `row` was changed; null: that is not known. */
export function commitOf(
  { lists: { runRows, runLsns, runTimesUs }, firstRun, runs }: KeptRows,
  row: number,
): { readonly lsn: Lsn; readonly timeUs: number } | null {
  if (runs === 0) return null;
  let run = firstRun;
  for (let end = runRows[run]!; row >= end && run < firstRun + runs - 1; ) end += runRows[++run]!;
  return { lsn: runLsns[run]!, timeUs: runTimesUs[run]! };
}

/** The rows with this key, in their order. */
export function rowsWith(
  { lists: { hashes, checks }, first, count, runs }: KeptRows,
  { hash, check }: KeyDigest,
): readonly number[] {
  const found: number[] = [];
  for (let row = 0; row < count; row++) {
    // Of a parked message that was sent again the first hash alone is known.
    if (hashes[first + row] === hash && (checks[first + row] === check || runs === 0)) found.push(row);
  }
  return found;
}

export function operationOf(mark: number): OperationLetter | "" {
  const code = mark & operationMask;
  const operation = operations.find((each) => codes[each] === code);
  return operation ? operationLetters[operation] : "";
}

export function partOfMark(mark: number): number {
  return mark >>> partShift;
}
