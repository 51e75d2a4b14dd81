// Copies the tables that the sink does not hold yet: several at a time, and a large one in ranges of its pages, side by side.
// One that cannot be read does not keep the others.

import { type PageRange, RangesLeft } from "../../change/page-range.ts";
import { qualifiedName, type TableShape } from "../../change/relation.ts";
import { type MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { BegunCopy, CopyRequest, OwedRows, Sink } from "../../sink/sink.ts";
import type { Source } from "../../source/source.ts";
import type { ProgressMeter } from "../progress-meter.ts";
import type { RunReporter } from "../run-reporter.ts";
import { type CopyPace, rangeCut } from "./copy-pace.ts";
import type { CopyPoints } from "./copy-points.ts";
import { addRanges } from "./range-lanes.ts";
import { UnreadableTables } from "./unreadable-tables.ts";
import { WorkPool } from "./work-pool.ts";

export interface InitialCopy {
  readonly source: Source;
  readonly sink: Sink;
  readonly reporter: Pick<RunReporter, "phase">;
  readonly meter: ProgressMeter;
  readonly pace: CopyPace;
  /** Tables, and ranges of tables, that are copied side by side. */
  readonly parallel: number;
  /** In the order in which they stand, one after the other. */
  readonly isOrdered?: boolean | undefined;
  readonly unreadable: UnreadableTables;
  /** Finish the copies in hand, and begin no others. */
  readonly stop: AbortSignal;
}

/**
 * Returns when every table's copy is durable or the table has turned out to be unreadable, or when it was stopped. Any other
 * failure ends the others.
 */
export async function copyTables(
  copy: InitialCopy,
  tables: readonly TableShape[],
  points: CopyPoints,
): Promise<void> {
  for (const { relation, estimatedRows } of tables)
    copy.meter.expects(qualifiedName(relation), estimatedRows);
  // The largest first: it decides when the last one ends.
  const inOrder = copy.isOrdered ? tables : tables.toSorted((a, b) => b.estimatedBytes - a.estimatedBytes);
  const pool = new WorkPool(Math.max(1, copy.parallel), copy.stop);
  pool.add(inOrder.map((table) => () => copyOne(copy, pool, table, points)));
  await pool.ended();
}

/** Ranges are added to the pool, and the one that ends last puts the table in its place. */
async function copyOne(
  copy: InitialCopy,
  pool: WorkPool,
  table: TableShape,
  points: CopyPoints,
): Promise<void> {
  const name = qualifiedName(table.relation);
  const reading: Reading = { table, failure: null };
  copy.reporter.phase({ name: "snapshot", table: name }, { kind: "start" });
  copy.meter.began(name);
  const divided = await unlessUnreadable(copy, reading, () => divide(copy, reading, points));
  if (reading.failure) return;
  if (divided === null) {
    const form = copy.sink.copyForm(table);
    await unlessUnreadable(copy, reading, () => copyRows(copy, points, reading, form, null, name));
    if (reading.failure === null) finish(copy, table);
    return;
  }
  const { begun, ranges } = divided;
  copy.meter.resumed(name, begun.rows);
  const ended = async () => {
    await copy.sink.endCopy(table);
    finish(copy, table);
  };
  const copyRange = async (range: PageRange) => {
    const beganMs = performance.now();
    const part = `${name} ${range.from}`;
    await unlessUnreadable(copy, reading, () => copyRows(copy, points, reading, begun.form, range, part));
    if (reading.failure) return null;
    copy.meter.rangeCopied(name, part);
    return performance.now() - beganMs;
  };
  addRanges(pool, { ranges, lanes: copy.parallel, copy: copyRange, ended });
}

/** A table that is being read, in one or several parts. */
interface Reading {
  readonly table: TableShape;
  /** Why it cannot be read: the first that was met. */
  failure: MillraceError | null;
}

/** What the source has failed of, while it was asked for the table. The sink may have made another error of it. */
class ReadFailure extends Error {
  constructor(readonly failure: MillraceError) {
    super(failure.message, { cause: failure });
  }
}

/** What `work` gives; null when the table turns out to be unreadable. Throws what is not the matter with this table alone. */
async function unlessUnreadable<T>(
  { reporter, meter, unreadable }: InitialCopy,
  reading: Reading,
  work: () => Promise<T>,
): Promise<T | null> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ReadFailure)) throw error;
    const { failure } = error;
    if (!UnreadableTables.isOfOneTable(failure)) throw failure;
    if (reading.failure) return null;
    reading.failure = failure;
    const name = qualifiedName(reading.table.relation);
    meter.gaveUp(name);
    unreadable.failed(reading.table, failure);
    reporter.phase({ name: "snapshot", table: name }, { kind: "warning", reason: failure.message });
    return null;
  }
}

/** Null: the table is to be copied whole. */
async function divide(
  copy: InitialCopy,
  { table }: Reading,
  points: CopyPoints,
): Promise<{ readonly begun: BegunCopy; readonly ranges: RangesLeft } | null> {
  const { source, sink, pace } = copy;
  const isOneByOne = copy.isOrdered === true;
  const size = isOneByOne ? null : await source.measure(table).catch(throwReadFailure);
  if (size === null || size.bytes < pace.dividedFromBytes) return null;
  const begun = await sink.beginCopy(table, !points.isOnlyOne);
  return (
    begun && {
      begun,
      ranges: new RangesLeft(size, begun.ranges, rangeCut(pace, copy.parallel), begun.inHand),
    }
  );
}

async function copyRows(
  copy: InitialCopy,
  points: CopyPoints,
  { table }: Reading,
  form: BegunCopy["form"],
  range: PageRange | null,
  name: string,
): Promise<void> {
  const part = range && ({ kind: "range", range } as const);
  const progress = (rows: number, bytes: number) => copy.meter.copying(name, rows, bytes);
  await pass(copy, points, { table, form, mode: "initial", progress, ...(part ? { part } : {}) });
}

/** Rows that the sink lacks of a table that it has a copy of. One that cannot be read is asked for once more later. */
export async function copyOwedRows(
  copy: InitialCopy,
  { table, keys }: OwedRows,
  points: CopyPoints,
): Promise<void> {
  const reading: Reading = { table, failure: null };
  const part = { kind: "rows", keys } as const;
  const form = copy.sink.copyForm(table);
  const rows = { table, form, mode: "merge", part, progress: () => {} } as const;
  await unlessUnreadable(copy, reading, () => pass(copy, points, rows));
  if (reading.failure === null) copy.unreadable.copied(table);
}

/** From the source to the sink, as of a point. */
async function pass(
  { source, sink }: InitialCopy,
  points: CopyPoints,
  rows: Omit<CopyRequest, "chunks" | "rowsRead" | "lsn" | "timeUs">,
): Promise<void> {
  const failed: { error: unknown } = { error: null };
  const passing = points.use(async (point) => {
    const { chunks, rowsRead } = source.copyTable(rows.table, point, rows.form, rows.part);
    const { lsn, timeUs } = point;
    await sink.copyTable({ ...rows, chunks: watched(chunks, failed), rowsRead, lsn, timeUs });
  });
  await passing.catch((error: unknown) => {
    if (failed.error === null) throw error;
    throwReadFailure(failed.error);
  });
}

/** The chunks; notes what the source has failed of. */
async function* watched(
  chunks: AsyncIterable<Uint8Array>,
  failed: { error: unknown },
): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } catch (error) {
    failed.error = error;
    throw error;
  }
}

function throwReadFailure(error: unknown): never {
  throw new ReadFailure(toMillraceError(error));
}

function finish({ source, meter, reporter, unreadable }: InitialCopy, table: TableShape): void {
  const name = qualifiedName(table.relation);
  source.copied(table);
  meter.copied(name);
  unreadable.copied(table);
  reporter.phase({ name: "snapshot", table: name }, { kind: "complete" });
}
