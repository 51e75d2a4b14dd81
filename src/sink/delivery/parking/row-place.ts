// Where a row stands in the order in which the source sends it: commit LSN, ordinal in the transaction, part of the change. That is the same
// whenever the row comes again, whatever is selected by then. So it tells whether a row is parked, which its version does not. Pure.

import { type Checkpoint, donePosition, type Position } from "../../../change/checkpoint.ts";
import { type Lsn, lsn } from "../../../change/lsn.ts";
import type { RowMoment } from "../../format/idempotency-key.ts";
import type { RowContext } from "../../format/row-encoder.ts";

export interface RowPoint {
  readonly place: bigint;
  /** What an earlier version of millrace has parked is told by versions. */
  readonly version: number;
}

/** What is needed of a `PlannedRow`. */
interface PlacedRow {
  readonly context: Pick<RowContext, "commitLsn" | "version">;
  readonly moment: Pick<RowMoment, "ordinal" | "part">;
  readonly behind: Position | null;
}

const partsOfChange = 4;
/** The last part: rows of a copy stand behind a change as a whole. */
const copiesPart = 3;
const [stepBits, versionBits] = [40n, 53n];

/** Behind all rows. */
export const endPoint: RowPoint = {
  place: 1n << (64n + stepBits + versionBits),
  version: Number.MAX_SAFE_INTEGER,
};

/** `isOfCopy`: it stands behind the step, and copies there in the order of their versions. */
export function rowPoint(commitLsn: Lsn, step: number, version: number, isOfCopy: boolean): RowPoint {
  const change = ((commitLsn << stepBits) + BigInt(step)) << versionBits;
  return { place: change + BigInt(isOfCopy ? version : 0), version };
}

/** Ordinal and part. Rows that come only as the whole change have the first part. */
export function stepOf({ behind, moment: { ordinal, part } }: PlacedRow): number {
  return behind ? behind.ordinal * partsOfChange + copiesPart : ordinal * partsOfChange + (part & copiesPart);
}

export function pointOf(row: PlacedRow): RowPoint {
  const { behind, context } = row;
  return rowPoint((behind ?? context).commitLsn, stepOf(row), context.version, behind !== null);
}

/** Where the rows of a change begin. */
export function changePoint({ commitLsn, ordinal }: Position, version: number): RowPoint {
  return rowPoint(commitLsn, ordinal * partsOfChange, version, false);
}

/** Rows of the stream up to there are durable, and never come again. */
export function passedPoint(checkpoint: Checkpoint): RowPoint {
  const { commitLsn, ordinal } = donePosition(checkpoint);
  return rowPoint(commitLsn, ordinal * partsOfChange + copiesPart, Number(checkpoint.lastVersion), true);
}

/** The change of a row, or the one that a row of a copy stands behind. Null: below zero, as an earlier version has parked it, it does not tell. */
export function changeAt(place: bigint): Position | null {
  if (place < 0n) return null;
  const step = Number(BigInt.asUintN(Number(stepBits), place >> versionBits));
  return { commitLsn: lsn(place >> (stepBits + versionBits)), ordinal: Math.floor(step / partsOfChange) };
}

/**
 * Below zero: `place` is before the row; zero: it is the row's. What an earlier version of millrace has parked has no places: versions stand for
 * them, below zero. They tell as much as they did then: as long as no other tables are selected.
 */
export function comparePlace(place: bigint, row: RowPoint): number {
  if (place < 0n) return -Number(place) - row.version;
  return place < row.place ? -1 : place === row.place ? 0 : 1;
}
