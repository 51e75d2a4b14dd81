// What the sink's record holds of a copy that is made in ranges of its table's pages: which ranges are delivered, what their rows
// carry, and rows that may be in none of them. Small, since what it holds of a table is saved together. Pure; deciding is divided-copies.ts's.

import type { RowKey } from "../../../change/copy-part.ts";
import { formatLsn, type Lsn, parseLsn } from "../../../change/lsn.ts";
import type { PageRange } from "../../../change/page-range.ts";
import type { CopyOrigin } from "../copy/copy-rows.ts";
import { OwedKeys } from "./owed-keys.ts";

export interface DividedCopy {
  /**
   * - `open`: ranges are missing.
   * - `again`: as `open`, of a table that has been copied before.
   * - `joined`: all are delivered, as of points that follow each other, and the stream has not brought all that lies between.
   * - `refused`: more rows are owed than are noted: the table is to be copied whole, as of one point.
   */
  readonly phase: "open" | "again" | "joined" | "refused";
  /** Tells what it is a copy of. */
  readonly mark: string;
  /** What the rows of all ranges carry; null before the first. */
  readonly origin: CopyOrigin | null;
  /** In order; neighbours are one. */
  readonly ranges: readonly PageRange[];
  /** That have begun: rows of theirs may have been delivered. */
  readonly inHand: readonly PageRange[];
  readonly rows: number;
  /** The first and the last point that ranges were copied as of; null before the first. */
  readonly points: { readonly first: Lsn; readonly last: Lsn } | null;
  /** Keys of rows that may have moved past the ranges, and of which the stream has not brought all values. */
  readonly owed: OwedKeys;
}

export type DividedTables = ReadonlyMap<string, DividedCopy>;

type StoredRange = readonly [number, number | null];

export interface StoredDividedCopy {
  readonly phase: DividedCopy["phase"];
  readonly mark: string;
  /** Version, time in microseconds, LSN. */
  readonly origin: readonly [number, number, string] | null;
  readonly ranges: readonly StoredRange[];
  readonly inHand?: readonly StoredRange[];
  readonly rows: number;
  readonly points: readonly [string, string] | null;
  readonly owed: readonly RowKey[];
}

export function begunCopy(mark: string, phase: "open" | "again" = "open"): DividedCopy {
  return { phase, mark, origin: null, ranges: [], inHand: [], rows: 0, points: null, owed: new OwedKeys() };
}

/** With a range, as of `point`, whose rows are all delivered. */
export function withRange(copy: DividedCopy, range: PageRange, point: Lsn, rows: number): DividedCopy {
  const { first, last } = copy.points ?? { first: point, last: point };
  return {
    ...copy,
    ranges: merged([...copy.ranges, range]),
    inHand: copy.inHand.filter(({ from }) => from !== range.from),
    rows: copy.rows + rows,
    points: { first: point < first ? point : first, last: point > last ? point : last },
  };
}

function merged(ranges: readonly PageRange[]): readonly PageRange[] {
  const runs: PageRange[] = [];
  for (const range of ranges.toSorted((a, b) => a.from - b.from)) {
    const before = runs.at(-1);
    if (before?.to === range.from) runs[runs.length - 1] = { from: before.from, to: range.to };
    else runs.push(range);
  }
  return runs;
}

/** Rows may be in none of the ranges, or be owed, until the stream has passed the last point. */
export function isMixed({ points }: DividedCopy): boolean {
  return points !== null && points.first !== points.last;
}

export function storeDivided(copy: DividedCopy): StoredDividedCopy {
  const { phase, mark, origin, ranges, inHand, rows, points, owed } = copy;
  const stored = (each: readonly PageRange[]) => each.map(({ from, to }) => [from, to] as const);
  return {
    phase,
    mark,
    origin: origin && [origin.version, origin.timeUs, formatLsn(origin.lsn)],
    ranges: stored(ranges),
    inHand: stored(inHand),
    rows,
    points: points && [formatLsn(points.first), formatLsn(points.last)],
    owed: owed.list(),
  };
}

export function readDivided(stored: StoredDividedCopy): DividedCopy {
  const { phase, mark, origin, ranges, inHand = [], rows, points, owed } = stored;
  const read = (each: readonly StoredRange[]) => each.map(([from, to]) => ({ from, to }));
  return {
    phase,
    mark,
    origin: origin && { version: origin[0], timeUs: origin[1], lsn: parseLsn(origin[2]) },
    ranges: read(ranges),
    inHand: read(inHand),
    rows,
    points: points && { first: parseLsn(points[0]), last: parseLsn(points[1]) },
    owed: new OwedKeys(owed),
  };
}
