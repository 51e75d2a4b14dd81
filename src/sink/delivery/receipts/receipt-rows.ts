// What a receipt keeps of the rows of its request: digests of their keys, what happened to each, and in which transactions. It is gathered
// while rows are added to the request, in numbers alone.

import type { Lsn } from "../../../change/lsn.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import type { RowMoment } from "../../format/idempotency-key.ts";
import type { RowContext, RowOperation } from "../../format/row-encoder.ts";
import { identityHash } from "../../format/row-identity.ts";
import type { TupleView } from "../../format/values/tuple-view.ts";
import { checkHash } from "./key-digest.ts";

/** In the order of their codes. */
export const operationLetters = ["c", "u", "d", "r", "t"] as const;

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

export interface KeptRows {
  readonly count: number;
  /** Of each row: `KeyDigest`, and its operation with its part. */
  readonly hashes: ArrayLike<number>;
  readonly checks: ArrayLike<number>;
  readonly marks: ArrayLike<number>;
  /** Of each row, where each is a message of its own: its place in its transaction. Null: they are one request. */
  readonly ordinals: ArrayLike<number> | null;
  /** Of each row, where it is a message of Kafka: its partition, and its offset there; NaN: no broker told it. */
  readonly partitions?: ArrayLike<number>;
  readonly offsets?: ArrayLike<number>;
  /** Transactions, and how many of the rows are of each. */
  readonly runRows: ArrayLike<number>;
  readonly runLsns: ArrayLike<Lsn>;
  readonly runTimesUs: ArrayLike<number>;
}

export class ReceiptRows implements KeptRows {
  readonly hashes: number[] = [];
  readonly checks: number[] = [];
  readonly marks: number[] = [];
  readonly ordinals: number[] | null;
  readonly runRows: number[] = [];
  readonly runLsns: Lsn[] = [];
  readonly runTimesUs: number[] = [];

  constructor(areMessages: boolean) {
    this.ordinals = areMessages ? [] : null;
  }

  get count(): number {
    return this.hashes.length;
  }

  /** Of a table without a key nothing is kept: nobody can ask for one of its rows. */
  add({ relation: { key } }: CompiledTable, { arena, identity, context, moment, touches }: AddedRow): void {
    if (identity === null || key.length === 0) return;
    const known = touches.length === 1 && touches[0] !== 0 ? touches[0]! : identityHash(arena, identity, key);
    this.hashes.push(known >>> 0);
    this.checks.push(checkHash(arena, identity, key));
    this.marks.push(codes[context.operation] | (moment.part << partShift));
    this.ordinals?.push(moment.ordinal);
    const last = this.runRows.length - 1;
    if (
      last >= 0 &&
      this.runTimesUs[last] === context.commitTimeUs &&
      this.runLsns[last] === context.commitLsn
    ) {
      this.runRows[last]!++;
      return;
    }
    this.runRows.push(1);
    this.runLsns.push(context.commitLsn);
    this.runTimesUs.push(context.commitTimeUs);
  }

  /** Those of a part of the request. `rows`: rising indexes. A request whose rows are not kept has no part that keeps them. */
  part(rows: readonly number[]): ReceiptRows {
    const part = new ReceiptRows(this.ordinals !== null);
    if (this.count === 0) return part;
    let run = 0;
    let end = this.runRows[0]!;
    let lastRun = -1;
    for (const row of rows) {
      while (row >= end) end += this.runRows[++run]!;
      part.hashes.push(this.hashes[row]!);
      part.checks.push(this.checks[row]!);
      part.marks.push(this.marks[row]!);
      if (this.ordinals) part.ordinals?.push(this.ordinals[row]!);
      if (run === lastRun) part.runRows[part.runRows.length - 1]!++;
      else {
        part.runRows.push(1);
        part.runLsns.push(this.runLsns[run]!);
        part.runTimesUs.push(this.runTimesUs[run]!);
        lastRun = run;
      }
    }
    return part;
  }
}

/** In which of the runs row `row` is. */
export function runOf({ runRows }: KeptRows, row: number): number {
  let run = 0;
  for (let end = runRows[0] ?? 0; row >= end && run < runRows.length - 1; ) end += runRows[++run]!;
  return run;
}

export function operationOf(mark: number): string {
  return operationLetters[mark & operationMask] ?? "";
}

export function partOfMark(mark: number): number {
  return mark >>> partShift;
}
