// Copies one table for a task beside the stream, which goes on, for this table too. What has to stand between two batches asks for a
// turn. Where the sink cannot take the table so, the copy is made in one turn.

import { type Lsn, zeroLsn } from "../change/lsn.ts";
import { type PageRange, rangesLeft } from "../change/page-range.ts";
import type { TableShape } from "../change/relation.ts";
import type { CopyBeside, SettledPiece, Sink } from "../sink/sink.ts";
import type { SnapshotPoint, Source } from "../source/source.ts";
import { CopyPoints } from "./copy-points.ts";
import { CopyRoom } from "./copy-room.ts";
import { type CopyPace, defaultCopyPace } from "./initial-copy.ts";
import type { OfferedTask } from "./run-reporter.ts";
import { RunningTasks, type RunningTasksOptions } from "./running-tasks.ts";
import { copyForTask, findTable, modeOf } from "./snapshot-task.ts";
import type { StreamEvents } from "./stream-events.ts";
import type { StreamPlace } from "./stream-place.ts";
import { chunksUntilAborted, untilAborted } from "./until-aborted.ts";
import { WorkPool } from "./work-pool.ts";

/** At once, where there are connections for them. */
const mostTasks = 2;
/** What a task reads as of, and at times the one that follows. */
const pointsOfTask = 2;
/** What a copy between two batches takes: a point, what that is asked for by, and a connection to read by. */
const betweenBatches = 3;
/** A sink's table that is held is looked at again. */
const heldMs = 500;

interface BesideStream {
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
}

interface TasksRequest extends Pick<RunningTasksOptions, "tasks" | "stop"> {
  readonly parallelCopies: number;
  /** Tasks then leave what a copy between two batches takes, of a new table or of rows that are owed. */
  readonly areConnectionsBounded?: boolean;
  readonly copyPace?: CopyPace;
}

/** Tasks at once, and what all of them read side by side. Each beyond the first needs connections for points of its own. Pure. */
export function taskShares({
  parallelCopies,
  areConnectionsBounded: isBounded = false,
}: Pick<TasksRequest, "parallelCopies" | "areConnectionsBounded">): {
  readonly limit: number;
  readonly parallel: number;
} {
  const left = parallelCopies - (isBounded ? betweenBatches : 0);
  const limit = left > pointsOfTask + 1 ? mostTasks : 1;
  return { limit, parallel: Math.max(1, left - pointsOfTask * (limit - 1)) };
}

/** `ended`: a task has. */
export function tasksBeside(
  request: TasksRequest,
  stream: Pick<BesideStream, "source" | "sink" | "place" | "listTables">,
  events: StreamEvents,
  ended: () => void,
): RunningTasks {
  const { tasks, stop, copyPace: pace = defaultCopyPace } = request;
  const { limit, parallel } = taskShares(request);
  const turn: BesideStream["turn"] = (action, signal) => events.turn(action, signal);
  const beside = { ...stream, room: new CopyRoom(parallel), parallel, turn, pace };
  return new RunningTasks({
    tasks,
    stop,
    limit,
    work: (task, cut) => copyBeside(beside, task, cut),
    ended: () => {
      ended();
      events.wake();
    },
    failed: (error) => events.fail(error),
  });
}

/** Returns when the sink has the table's rows durably. Throws what the copy failed of, or the reason of `cut`, which ends it. */
async function copyBeside(beside: BesideStream, task: OfferedTask, cut: AbortSignal): Promise<void> {
  const { source, sink, turn, place } = beside;
  const table = await turn(async () => findTable(await beside.listTables(), source.database, task), cut);
  const before = await passedPoint(beside, cut);
  const begun = await turn(async () => {
    const begun = await sink.beginBeside(table, modeOf(task), cut);
    if (begun === null) await copyForTask(source, sink, table, task, cut);
    return begun;
  }, cut);
  if (begun === null) return;
  await using copy = begun;
  const point = await new PartCopies(beside, copy, table, task, cut).make();
  await place.passed(point, cut);
  await copy.compare();
  while (true) {
    const { isMore, isHeld } = await turn(() => settle(beside, copy, table, task, cut), cut);
    if (!isMore) break;
    if (isHeld) await untilAborted(Bun.sleep(heldMs), cut);
  }
  source.copied(table, before);
}

/**
 * A point that the stream has passed. What it touches from here on was changed behind it: a table that was rewritten before, which no
 * event tells, would else have older rows of the stream taken for newer ones than the copy's.
 */
async function passedPoint({ source, place }: BesideStream, cut: AbortSignal): Promise<SnapshotPoint> {
  const point = await source.snapshotPoint(cut);
  await point[Symbol.asyncDispose]();
  await place.passed(point.lsn, cut);
  return point;
}

/**
 * In a turn: rows that are owed have to come before the next batch, all of them. What the stream touches once nothing is listed any more
 * was right before.
 */
async function settle(
  { source, sink }: BesideStream,
  copy: CopyBeside,
  table: TableShape,
  task: OfferedTask,
  cut: AbortSignal,
): Promise<SettledPiece> {
  while (true) {
    const piece = await copy.settle();
    if (piece.owed.length === 0) return piece;
    await copyForTask(source, sink, table, task, cut, { kind: "rows", keys: piece.owed });
  }
}

/** The table's rows on their way to the sink: whole, or in ranges as of points that follow each other. */
class PartCopies {
  /** The latest. */
  #point: Lsn = zeroLsn;
  readonly #taken = new Map<PageRange | null, { rows: number; bytes: number }>();

  constructor(
    private readonly beside: BesideStream,
    private readonly copy: CopyBeside,
    private readonly table: TableShape,
    private readonly task: OfferedTask,
    private readonly cut: AbortSignal,
  ) {}

  /** Returns the last point that rows were read as of. */
  async make(): Promise<Lsn> {
    const { source, parallel, pace, room } = this.beside;
    const { table, cut } = this;
    const size = await untilAborted(source.measure(table), cut);
    const isDivided = size !== null && size.bytes >= pace.dividedFromBytes;
    const parts: readonly (PageRange | null)[] = isDivided ? rangesLeft(size, [], pace.rangeBytes) : [null];
    const next = () => source.snapshotPoint(cut);
    await using points = new CopyPoints(await next(), { next, heldMs: pace.pointHeldMs });
    const pool = new WorkPool(parallel, cut);
    pool.add(
      parts.map((part) => () => room.within(1, cut, () => points.use((point) => this.#take(point, part)))),
    );
    await pool.ended();
    cut.throwIfAborted();
    return this.#point;
  }

  async #take(point: SnapshotPoint, range: PageRange | null): Promise<void> {
    const { copy, table, task, cut } = this;
    const { source, place } = this.beside;
    const { lsn, timeUs } = point;
    if (lsn > this.#point) this.#point = lsn;
    if (copy.takesAfterPoint) await place.passed(lsn, cut);
    const part = range && ({ kind: "range", range } as const);
    const { chunks, rowsRead } = source.copyTable(table, point, copy.form, part ?? undefined);
    await copy.take({
      ...{ table, form: copy.form, lsn, timeUs, mode: modeOf(task), ...(part ? { part } : {}) },
      ...{ chunks: chunksUntilAborted(chunks, cut), rowsRead },
      progress: (rows, bytes) => this.#tell(range, rows, bytes),
    });
  }

  #tell(range: PageRange | null, rows: number, bytes: number): void {
    this.#taken.set(range, { rows, bytes });
    const all = [...this.#taken.values()];
    const sum = (of: (taken: { rows: number; bytes: number }) => number) =>
      all.reduce((total, each) => total + of(each), 0);
    const counted = sum((taken) => taken.rows);
    this.task.progress(
      counted,
      sum((taken) => taken.bytes),
      Math.max(counted, this.table.estimatedRows),
    );
  }
}
