// Copies one table: reads its chunks, several at once, each as of a point, and hands them to the sink. Whether the stream goes on meanwhile was
// decided when the copy began: see sink/copy-sink.ts.

import type { CopyPart, RowKey } from "../../change/copy-part.ts";
import { RangesLeft, type TableSize } from "../../change/page-range.ts";
import type { TableShape } from "../../change/relation.ts";
import { concurrently } from "../../concurrency/concurrently.ts";
import { chunksUntilAborted, untilAborted } from "../../concurrency/until-aborted.ts";
import { MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { CopyChunk, Finished, StartedCopy, TableCopy, TellPhase } from "../../sink/copy-sink.ts";
import type { SnapshotPoint } from "../../source/table-source.ts";
import type { CopyStates } from "../table-states.ts";
import type { CopyEnvironment } from "./copy-environment.ts";
import type { CopyPoints } from "./copy-points.ts";

/** How long to wait before a locked table of the sink is tried again. */
const lockedMs = 500;

export interface CopyOfTable {
  readonly table: TableShape;
  readonly copy: TableCopy;
  /** Ends the copy with the signal's reason. */
  readonly signal: AbortSignal;
  /** Called now and then with the rows and bytes that were taken so far. */
  readonly progress: (rows: number, bytes: number) => void;
  /** Called when all rows are read, and the sink has still to do something with them. */
  readonly phase?: TellPhase;
}

export interface StartedTable extends CopyOfTable {
  readonly started: StartedCopy;
  /** Null: the table comes as one chunk. */
  readonly size: TableSize | null;
}

/** Functions by which a copy tells `states` how far it has come. */
export function tellersOf(states: CopyStates, table: TableShape) {
  const progress: CopyOfTable["progress"] = (rows, bytes) => states.copying(table, rows, bytes);
  const phase: TellPhase = (name, rowsWritten) => states.inPhase(table, name, rowsWritten);
  return { progress, phase };
}

/** The source's error while a table was read. The sink may have thrown another error because of it. */
export class ReadFailure extends MillraceError {
  constructor(error: unknown) {
    const failure = toMillraceError(error);
    super(failure.code, failure.message, failure);
  }
}

/** Measures the table, and starts its copy between two batches. `isWhole`: the table is not divided. */
export async function startCopy(
  environment: CopyEnvironment,
  of: CopyOfTable,
  isWhole = false,
): Promise<StartedTable> {
  const { pace, permits, betweenBatches } = environment;
  const { copy, signal } = of;
  const measured = isWhole ? null : await measure(environment, of);
  const isLarge = measured !== null && measured.bytes >= pace.dividedFromBytes;
  const start = () => betweenBatches(() => copy.start(isLarge), signal);
  // The sink may use a session for it. Beside the stream it does not, and whoever waits for batches must not hold a permit.
  const started = copy.stream === "waits" ? await permits.within(signal, start) : await start();
  return { ...of, started, size: isLarge && started.ranges ? measured : null };
}

/** A lock on the source's table blocks this. */
async function measure(
  { source, permits }: CopyEnvironment,
  { table, signal }: CopyOfTable,
): Promise<TableSize | null> {
  return await permits.within(signal, () =>
    untilAborted(source.measure(table), signal).catch((error: unknown) => {
      signal.throwIfAborted();
      throw new ReadFailure(error);
    }),
  );
}

/**
 * Returns true when the sink has taken and settled all chunks; false: `stop` fired before all had begun. Throws `ReadFailure`, the sink's error,
 * or the signal's reason.
 */
export async function copyChunks(
  environment: CopyEnvironment,
  of: StartedTable,
  points: CopyPoints,
  stop?: AbortSignal,
): Promise<boolean> {
  const { parallel, pace } = environment;
  const { size, started, signal } = of;
  const rows = new RowsTaken(started.ranges?.rows ?? 0, of.progress);
  if (!size || !started.ranges) {
    await copyChunk(environment, of, points, null, rows);
    return true;
  }
  const { done, begun } = started.ranges;
  const { rangeBytes: bytes, firstRangeBytes: firstBytes, rangeMs: ms } = pace;
  const ranges = new RangesLeft(size, done, { bytes, firstBytes, ms, lanes: parallel }, begun);
  const next = () => (stop?.aborted ? null : ranges.next());
  await concurrently(parallel, next, async (range) => {
    const part = { kind: "range", range } as const;
    ranges.copied(range, await copyChunk(environment, of, points, part, rows));
  });
  signal.throwIfAborted();
  return ranges.isDone;
}

/** Copies the rows of these keys, as one chunk. Throws as `copyChunks` does. */
export async function copyKeys(
  environment: CopyEnvironment,
  of: StartedTable,
  points: CopyPoints,
  keys: readonly RowKey[],
): Promise<void> {
  await copyChunk(environment, of, points, { kind: "rows", keys }, new RowsTaken(0, of.progress));
}

/**
 * Finishes the copy between two batches. `complete` is called before the next one if rows are incomplete: its partial changes are to find whole
 * rows. Returns as `finish` of the copy, once nothing more is to be done. A blocking copy has none: all changes come after it.
 */
export async function finishCopy(
  { betweenBatches }: CopyEnvironment,
  { copy, signal, phase }: CopyOfTable,
  complete: () => Promise<unknown> = async () => {},
): Promise<Done> {
  const piece = async () => {
    const left = await copy.finish(phase);
    if (left === "incomplete") await complete();
    return left;
  };
  return await untilNothingIsLeft(betweenBatches, piece, signal);
}

type Done = Exclude<Finished, "more" | "locked">;

/** Does the sink's work piece by piece, each between two batches. Waits where a table of the sink is locked. */
async function untilNothingIsLeft(
  betweenBatches: CopyEnvironment["betweenBatches"],
  piece: () => Promise<Finished>,
  signal: AbortSignal,
): Promise<Done> {
  while (true) {
    const left = await betweenBatches(piece, signal);
    if (left !== "more" && left !== "locked") return left;
    if (left === "locked") await untilAborted(Bun.sleep(lockedMs), signal);
  }
}

export interface RowsOfTable {
  readonly table: TableShape;
  readonly keys: readonly RowKey[];
  /** Of `keys`, those that the source is asked for; absent: all. It has no rows of the others. */
  readonly asked?: readonly RowKey[];
  readonly signal: AbortSignal;
  /** See `CopySink.takeRows`. */
  readonly absent?: "stay" | "removed";
}

/** Call it between two batches, after a flush: copies the rows that have these keys, as of a point that the stream has not passed. */
export async function copyRows(
  { source, sink }: Pick<CopyEnvironment, "source" | "sink">,
  { table, keys, asked = keys, signal, absent = "stay" }: RowsOfTable,
  point: SnapshotPoint,
): Promise<void> {
  const part = { kind: "rows", keys: asked } as const;
  const reading = { table, form: sink.copies.rowsForm(table), part, point, signal, progress: () => {} };
  await read(source, reading, (chunk) =>
    sink.copies.takeRows({ ...chunk, part: { kind: "rows", keys } }, absent),
  );
}

/** Returns how long the chunk took, in milliseconds. */
async function copyChunk(
  environment: CopyEnvironment,
  of: StartedTable,
  points: CopyPoints,
  part: CopyPart | null,
  rows: RowsTaken,
): Promise<number> {
  const { source, passed, permits } = environment;
  const { table, copy, started, signal } = of;
  const doesStreamRun = copy.stream === "runs";
  let beganMs = 0;
  await points.use(async (point) => {
    // Without a permit: a copy that the stream stands still for may wait for one.
    if (doesStreamRun) await passed(point.lsn, signal);
    await permits.within(signal, async () => {
      beganMs = performance.now();
      const told = !part && of.phase && { phase: of.phase };
      const reading = { table, form: started.form, part, point, signal, progress: rows.ofChunk() };
      await read(source, reading, (chunk) => copy.take({ ...chunk, ...told }));
    });
  });
  if (doesStreamRun) await untilNothingIsLeft(environment.betweenBatches, () => copy.settle(), signal);
  return performance.now() - beganMs;
}

interface Reading extends Pick<CopyChunk, "table" | "form" | "progress"> {
  /** Null: the whole table. */
  readonly part: CopyPart | null;
  readonly point: SnapshotPoint;
  readonly signal: AbortSignal;
}

async function read(
  source: CopyEnvironment["source"],
  { table, form, part, point, signal, progress }: Reading,
  take: (chunk: CopyChunk) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  const { lsn, timeUs } = point;
  const { chunks, rowsRead } = source.readTable(table, point, form, part ?? undefined);
  async function* watched() {
    try {
      yield* chunksUntilAborted(chunks, signal);
    } catch (error) {
      failures.push(error);
      throw error;
    }
  }
  const chunk = { table, form, chunks: watched(), rowsRead, lsn, timeUs, progress };
  try {
    await take(part ? { ...chunk, part } : chunk);
  } catch (error) {
    if (failures.length === 0 || signal.aborted) throw error;
    throw new ReadFailure(failures[0]);
  }
}

/** Sums up the progress of a table's chunks. */
class RowsTaken {
  #rows: number;
  #bytes = 0;

  /** `before`: rows of ranges that the sink had before. */
  constructor(
    before: number,
    private readonly progress: CopyOfTable["progress"],
  ) {
    this.#rows = before;
    if (before > 0) progress(before, 0);
  }

  ofChunk(): CopyOfTable["progress"] {
    let before = { rows: 0, bytes: 0 };
    return (rows, bytes) => {
      this.#rows += rows - before.rows;
      this.#bytes += bytes - before.bytes;
      before = { rows, bytes };
      this.progress(this.#rows, this.#bytes);
    };
  }
}
