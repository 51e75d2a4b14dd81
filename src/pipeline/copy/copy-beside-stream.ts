// Copies a table beside the stream, which goes on, for this table too. What has to stand between two batches asks for a turn.

import { type Lsn, zeroLsn } from "../../change/lsn.ts";
import { type PageRange, RangesLeft } from "../../change/page-range.ts";
import { readAhead } from "../../change/read-ahead.ts";
import type { TableShape } from "../../change/relation.ts";
import { chunksUntilAborted, untilAborted } from "../../change/until-aborted.ts";
import type { MillraceError } from "../../errors/millrace-error.ts";
import type { CopyBeside, SettledPiece, Sink } from "../../sink/sink.ts";
import type { SnapshotPoint, Source } from "../../source/source.ts";
import type { StreamPlace } from "../stream-place.ts";
import { copyBefore } from "./copy-before-changes.ts";
import { type CopyPace, rangeCut } from "./copy-pace.ts";
import { CopyPoints } from "./copy-points.ts";
import type { CopyRoom } from "./copy-room.ts";
import { addRanges } from "./range-lanes.ts";
import { type CopyWish, copyAtOnce } from "./snapshot-task.ts";
import { WorkPool } from "./work-pool.ts";

/** A sink's table that is held is looked at again. */
const heldMs = 500;
/** Of a range that the stream is to wait for. */
const readAheadBytes = 8 * 1024 * 1024;

export interface BesideStream {
  readonly source: Source;
  readonly sink: Sink;
  readonly place: StreamPlace;
  /** For what is read at once. */
  readonly room: CopyRoom;
  /** Ranges of a table that are read side by side at most. */
  readonly parallel: number;
  readonly pace: CopyPace;
  readonly turn: <T>(action: () => Promise<T>, signal: AbortSignal) => Promise<T>;
  /** In a turn. */
  readonly listTables: () => Promise<readonly TableShape[]>;
  /** Why a copy of one of the tables that were listed last would miss changes; null: it would not. */
  readonly hindrance: (table: TableShape) => MillraceError | null;
}

/** One table on its way. */
export interface TableBeside {
  readonly table: TableShape;
  readonly copy: CopyBeside;
  readonly wish: CopyWish;
  /** Ends it, with its reason. */
  readonly cut: AbortSignal;
}

/**
 * A point that the stream has passed. What it touches from here on was changed behind it: a table that was rewritten before, which no
 * event tells, would else have older rows of the stream taken for newer ones than the copy's.
 */
export async function passedPoint({ source, place }: BesideStream, cut: AbortSignal): Promise<SnapshotPoint> {
  const point = await source.snapshotPoint(cut);
  await point[Symbol.asyncDispose]();
  await place.passed(point.lsn, cut);
  return point;
}

/** Points that copies are made as of, one after the other. */
export async function besidePoints({ source, pace }: BesideStream, cut: AbortSignal): Promise<CopyPoints> {
  const next = () => source.snapshotPoint(cut);
  return new CopyPoints(await next(), { next, heldMs: pace.pointHeldMs });
}

/**
 * Returns when the sink has all rows and knows what they come to. What is left is `settleBeside`'s. `points`: null where the copy goes
 * before changes that wait for it.
 */
export async function copyRowsBeside(
  beside: BesideStream,
  each: TableBeside,
  points: CopyPoints | null,
): Promise<void> {
  const point = points ? await new PartCopies(beside, each).make(points) : await copyBefore(beside, each);
  await beside.place.passed(point, each.cut);
  await step(beside, each, () => each.copy.compare());
}

/** Where the run has ended, a copy that is made in turns stays as it is: the sink may be amid a batch. */
export async function endBeside(
  beside: Pick<BesideStream, "turn">,
  each: Pick<TableBeside, "copy" | "cut">,
): Promise<void> {
  if (each.copy.takesInTurn && each.cut.aborted) return;
  const ending = step(beside, each, async () => await each.copy[Symbol.asyncDispose]());
  await ending.catch((error: unknown) => {
    if (!each.cut.aborted) throw error;
  });
}

/** Beside the stream, or in a turn where the copy takes no other. */
function step<T>(
  { turn }: Pick<BesideStream, "turn">,
  { copy, cut }: Pick<TableBeside, "copy" | "cut">,
  action: () => Promise<T>,
): Promise<T> {
  return copy.takesInTurn ? turn(action, cut) : action();
}

/** Returns when the sink has the table as the stream has brought it. */
export async function settleBeside(beside: BesideStream, each: TableBeside): Promise<void> {
  while (true) {
    const { isMore, isHeld } = await beside.turn(() => settle(beside, each), each.cut);
    if (!isMore) return;
    if (isHeld) await untilAborted(Bun.sleep(heldMs), each.cut);
  }
}

/**
 * In a turn: rows that are owed have to come before the next batch, all of them. What the stream touches once nothing is listed any more
 * was right before.
 */
async function settle(
  { source, sink }: BesideStream,
  { copy, table, wish, cut }: TableBeside,
): Promise<SettledPiece> {
  while (true) {
    const piece = await copy.settle();
    if (piece.owed.length === 0) return piece;
    await copyAtOnce(source, sink, table, wish, cut, { kind: "rows", keys: piece.owed });
  }
}

/** The table's rows on their way to the sink: whole, or in ranges as of points that follow each other. */
class PartCopies {
  /** The latest. */
  #point: Lsn = zeroLsn;
  /** Of ranges that the sink had already. */
  #rowsHeld = 0;
  readonly #taken = new Map<PageRange | null, { rows: number; bytes: number }>();

  constructor(
    private readonly beside: BesideStream,
    private readonly each: TableBeside,
  ) {}

  /** Returns the last point that rows were read as of. */
  async make(points: CopyPoints): Promise<Lsn> {
    const { source, parallel, pace, room } = this.beside;
    const { table, copy, cut } = this.each;
    const size = await untilAborted(source.measure(table), cut);
    const { inTurnBytes } = pace;
    const [dividedFrom, division] = copy.takesInTurn
      ? [inTurnBytes, { bytes: inTurnBytes, firstBytes: inTurnBytes, ms: Number.POSITIVE_INFINITY, lanes: 1 }]
      : [pace.dividedFromBytes, rangeCut(pace, parallel)];
    const isLarge = size !== null && size.bytes >= dividedFrom;
    const held = isLarge ? await step(this.beside, this.each, () => copy.divide()) : null;
    this.#rowsHeld = held?.rows ?? 0;
    const pool = new WorkPool(parallel, cut);
    const take = (part: PageRange | null) =>
      room.within(1, cut, () => points.use((point) => this.#take(point, part)));
    if (size && held) {
      addRanges(pool, { ranges: new RangesLeft(size, held.ranges, division), lanes: parallel, copy: take });
    } else {
      pool.add([async () => void (await take(null))]);
    }
    await pool.ended();
    cut.throwIfAborted();
    return this.#point;
  }

  /** Returns how long it took to carry the rows, in milliseconds. */
  async #take(point: SnapshotPoint, range: PageRange | null): Promise<number> {
    const { copy, table, wish, cut } = this.each;
    const { source, place } = this.beside;
    const { lsn, timeUs } = point;
    if (lsn > this.#point) this.#point = lsn;
    if (copy.takesAfterPoint) await place.passed(lsn, cut);
    const beganMs = performance.now();
    const part = range && ({ kind: "range", range } as const);
    const { chunks, rowsRead } = source.copyTable(table, point, copy.form, part ?? undefined);
    const read = chunksUntilAborted(chunks, cut);
    const request = {
      ...{ table, form: copy.form, lsn, timeUs, mode: wish.mode, ...(part ? { part } : {}), rowsRead },
      progress: (rows: number, bytes: number) => this.#tell(range, rows, bytes),
    };
    if (copy.takesInTurn) {
      // The stream need not wait for the source as well.
      await using ahead = await readAhead(read, readAheadBytes);
      await step(this.beside, this.each, () => copy.take({ ...request, chunks: ahead }));
    } else await copy.take({ ...request, chunks: read });
    return performance.now() - beganMs;
  }

  #tell(range: PageRange | null, rows: number, bytes: number): void {
    this.#taken.set(range, { rows, bytes });
    const all = [...this.#taken.values()];
    const sum = (of: (taken: { rows: number; bytes: number }) => number) =>
      all.reduce((total, each) => total + of(each), 0);
    const counted = this.#rowsHeld + sum((taken) => taken.rows);
    this.each.wish.progress(
      counted,
      sum((taken) => taken.bytes),
      Math.max(counted, this.each.table.estimatedRows),
    );
  }
}
