// What the sink's record holds of a table's copy that is made in chunks: which ranges are delivered, what their rows carry, and keys of
// rows that may be incomplete. It is small, since what the record holds of a table is saved together. Pure: recorded-copies.ts decides.

import type { Position } from "../../../change/checkpoint.ts";
import { chunkedCopyFingerprint } from "../../../change/copy-fingerprint.ts";
import type { RowKey } from "../../../change/copy-part.ts";
import { formatLsn, type Lsn, parseLsn } from "../../../change/lsn.ts";
import type { PageRange } from "../../../change/page-range.ts";
import { keyNames, type TableShape } from "../../../change/relation.ts";
import { IncompleteKeys } from "./incomplete-keys.ts";

/** What the rows of a copy carry. */
export interface CopyOrigin {
  readonly version: number;
  /** Microseconds since 1970-01-01 UTC. */
  readonly timeUs: number;
  readonly lsn: Lsn;
}

/** With the change that they come after in the order of the stream. */
export interface PlacedOrigin extends CopyOrigin {
  readonly behind: Position;
}

export interface ChunkedCopy {
  /**
   * - `open`: ranges are missing.
   * - `again`: as `open`, of a table that has been copied before.
   * - `joined`: all are delivered. The stream has not come to the last of their points, or rows are incomplete.
   * - `refused`: more rows are incomplete than are recorded. Where the stream waits, the table is copied whole, as of one point.
   */
  readonly phase: "open" | "again" | "joined" | "refused";
  /** Tells what it is a copy of. */
  readonly mark: string;
  /** What the rows of all ranges carry; null: it is not decided, or each point has its own. */
  readonly origin: CopyOrigin | null;
  /** Ranges that are delivered, in order; neighbours are one. */
  readonly done: readonly PageRange[];
  /** Ranges of which rows may have been delivered. */
  readonly begun: readonly PageRange[];
  /** In the ranges that are delivered. */
  readonly rows: number;
  /** The first and the last point that ranges are as of; zero: the stream brings every change since. Null: before the first range. */
  readonly points: { readonly first: Lsn; readonly last: Lsn } | null;
  /** Columns of the key that `incomplete` are of. Absent: an earlier version recorded them. */
  readonly keyNames?: readonly string[] | undefined;
  readonly incomplete: IncompleteKeys;
}

/** By `schema.table`. */
export type ChunkedCopies = ReadonlyMap<string, ChunkedCopy>;

type StoredRange = readonly [number, number | null];

export interface StoredChunkedCopy {
  readonly phase: ChunkedCopy["phase"];
  readonly mark: string;
  /** Version, time in microseconds, LSN. */
  readonly origin: readonly [number, number, string] | null;
  readonly ranges: readonly StoredRange[];
  readonly inHand?: readonly StoredRange[];
  readonly rows: number;
  readonly points: readonly [string, string] | null;
  readonly owed: readonly RowKey[];
  readonly keyNames?: readonly string[];
}

/** The table has another key than the incomplete rows that are recorded: these name no rows any more. */
export function hasOtherKey({ keyNames: recorded, incomplete }: ChunkedCopy, table: TableShape): boolean {
  return !incomplete.isEmpty && recorded !== undefined && recorded.join() !== keyNames(table.relation).join();
}

/** Ranges count while it stays. */
export function rangesMark(table: TableShape): string {
  return Bun.SHA256.hash(chunkedCopyFingerprint(table), "hex");
}

/** The same for ranges of a replay: those of another one, and of a copy, do not count for it. */
export function replayMark(table: TableShape, replay: string): string {
  return `${rangesMark(table)} replay ${replay}`;
}

export function isReplayMark(mark: string): boolean {
  return mark.includes(" replay ");
}

/** Whether ranges with this mark are of the table as it is. */
export function areRangesOf(mark: string, table: TableShape): boolean {
  return mark.split(" ", 1)[0] === rangesMark(table);
}

export function begunCopy(mark: string, phase: "open" | "again" = "open"): ChunkedCopy {
  const nothing = { origin: null, done: [], begun: [], rows: 0, points: null };
  return { phase, mark, ...nothing, incomplete: new IncompleteKeys() };
}

/** With a range, as of `point`, whose rows are all delivered. */
export function withRange(copy: ChunkedCopy, range: PageRange, point: Lsn, rows: number): ChunkedCopy {
  const { first, last } = copy.points ?? { first: point, last: point };
  return {
    ...copy,
    done: merged([...copy.done, range]),
    begun: copy.begun.filter(({ from }) => from !== range.from),
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

export function storeChunked(copy: ChunkedCopy): StoredChunkedCopy {
  const { phase, mark, origin, done, begun, rows, points, keyNames: names, incomplete } = copy;
  const stored = (each: readonly PageRange[]) => each.map(({ from, to }) => [from, to] as const);
  return {
    phase,
    mark,
    origin: origin && [origin.version, origin.timeUs, formatLsn(origin.lsn)],
    ranges: stored(done),
    inHand: stored(begun),
    rows,
    points: points && [formatLsn(points.first), formatLsn(points.last)],
    owed: incomplete.list(),
    ...(names ? { keyNames: names } : {}),
  };
}

export function readChunked(stored: StoredChunkedCopy): ChunkedCopy {
  const { phase, mark, origin, ranges, inHand = [], rows, points, owed, keyNames: names } = stored;
  const read = (each: readonly StoredRange[]) => each.map(([from, to]) => ({ from, to }));
  return {
    phase,
    mark,
    origin: origin && { version: origin[0], timeUs: origin[1], lsn: parseLsn(origin[2]) },
    done: read(ranges),
    begun: read(inHand),
    rows,
    points: points && { first: parseLsn(points[0]), last: parseLsn(points[1]) },
    keyNames: names,
    incomplete: new IncompleteKeys(owed),
  };
}
