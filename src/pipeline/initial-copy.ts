// Copies the tables that the sink does not hold yet: several at a time, and a large one in ranges of its pages, side by side.

import { type PageRange, rangesLeft } from "../change/page-range.ts";
import { qualifiedName, type TableShape } from "../change/relation.ts";
import type { BegunCopy, OwedRows, Sink } from "../sink/sink.ts";
import type { SnapshotPoint, Source } from "../source/source.ts";
import type { CopyPoints } from "./copy-points.ts";
import type { ProgressMeter } from "./progress-meter.ts";
import type { RunReporter } from "./run-reporter.ts";
import { type Work, WorkPool } from "./work-pool.ts";

/** How large tables are divided. */
export interface CopyPace {
  /** Tables of fewer bytes are copied whole. */
  readonly dividedFromBytes: number;
  /** Of one range, at about: it should take well under a minute. */
  readonly rangeBytes: number;
  /** For how long copies may begin as of one point. */
  readonly pointHeldMs: number;
}

export const defaultCopyPace: CopyPace = {
  dividedFromBytes: 128 * 1024 * 1024,
  rangeBytes: 64 * 1024 * 1024,
  pointHeldMs: 40_000,
};

export interface InitialCopy {
  readonly source: Source;
  readonly sink: Sink;
  readonly reporter: RunReporter;
  readonly meter: ProgressMeter;
  readonly pace: CopyPace;
  /** Tables, and ranges of tables, that are copied side by side. */
  readonly parallel: number;
  /** In the order in which they stand, one after the other. */
  readonly isOrdered?: boolean | undefined;
  /** Finish the copies in hand, and begin no others. */
  readonly stop: AbortSignal;
}

/** Returns when every table's copy is durable, or when it was stopped. The first failure ends the others. */
export async function copyTables(
  copy: InitialCopy,
  tables: readonly TableShape[],
  points: CopyPoints,
): Promise<void> {
  const { snapshot } = copy.meter.progress;
  snapshot.tables = tables.length;
  snapshot.estimatedRows = tables.reduce((sum, table) => sum + table.estimatedRows, 0);
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
  copy.reporter.phase({ name: "snapshot", table: name }, { kind: "start" });
  const divided = await divide(copy, table, points);
  if (divided === null) {
    await copyRows(copy, points, table, copy.sink.copyForm(table), null, name);
    finish(copy, table);
    return;
  }
  const { begun, ranges } = divided;
  copy.meter.resumed(begun.rows);
  let left = ranges.length;
  const join = async () => {
    await copy.sink.endCopy(table);
    finish(copy, table);
  };
  if (left === 0) return await join();
  const works = ranges.map((range): Work => {
    return async () => {
      const part = `${name} ${range.from}`;
      await copyRows(copy, points, table, begun.form, range, part);
      copy.meter.rangeCopied(part);
      left--;
      if (left === 0) await join();
    };
  });
  pool.add(works);
}

/** Null: the table is to be copied whole. */
async function divide(
  copy: InitialCopy,
  table: TableShape,
  points: CopyPoints,
): Promise<{ readonly begun: BegunCopy; readonly ranges: readonly PageRange[] } | null> {
  const { source, sink, pace } = copy;
  const isOneByOne = copy.isOrdered === true;
  return await points.use(async (point) => {
    const size = isOneByOne ? null : await source.measure(table, point);
    if (size === null || size.bytes < pace.dividedFromBytes) return null;
    const begun = await sink.beginCopy(table, !points.isOnlyOne);
    return begun && { begun, ranges: rangesLeft(size, begun.ranges, pace.rangeBytes) };
  });
}

async function copyRows(
  { source, sink, meter }: InitialCopy,
  points: CopyPoints,
  table: TableShape,
  form: BegunCopy["form"],
  range: PageRange | null,
  name: string,
): Promise<void> {
  await points.use(async (point) => {
    const part = range ? { part: { kind: "range" as const, range } } : {};
    const { chunks } = source.copyTable(table, point, form, part.part);
    await sink.copyTable({
      table,
      form,
      chunks,
      lsn: point.lsn,
      timeUs: point.timeUs,
      mode: "initial",
      ...part,
      progress: (rows, bytes) => meter.copying(name, rows, bytes),
    });
  });
}

/** Rows that the sink lacks of tables that it has copies of, as of a point of now. */
export async function copyOwedRows(
  source: Source,
  sink: Sink,
  { table, keys }: OwedRows,
  point: SnapshotPoint,
): Promise<void> {
  const part = { kind: "rows", keys } as const;
  const form = sink.copyForm(table);
  await sink.copyTable({
    table,
    form,
    chunks: source.copyTable(table, point, form, part).chunks,
    lsn: point.lsn,
    timeUs: point.timeUs,
    mode: "merge",
    part,
    progress: () => {},
  });
}

function finish({ source, meter, reporter }: InitialCopy, table: TableShape): void {
  const name = qualifiedName(table.relation);
  source.copied(table);
  meter.copied(name);
  reporter.phase({ name: "snapshot", table: name }, { kind: "complete" });
}
