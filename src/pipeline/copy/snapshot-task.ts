// Copies one table, or rows of it, for a task while no batch is written: between two of them, or where there is no stream. The rows are
// those of a consistent point that is later than where the stream stands; the sink sees to it that what the stream still brings from
// before it does no harm. How a task is carried out beside the stream is in task-beside.ts.

import type { CopyPart } from "../../change/copy-part.ts";
import { qualifiedName, type TableShape } from "../../change/relation.ts";
import { MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { CopyRequest, Sink } from "../../sink/sink.ts";
import type { Source } from "../../source/source.ts";
import type { OfferedTask } from "../run-reporter.ts";

/**
 * Carries a task out where there is no stream, and reports the outcome on it. Throws only when the run was told to stop meanwhile: then
 * the task has no outcome.
 */
export async function runSnapshotTask(
  source: Source,
  sink: Sink,
  task: OfferedTask,
  listTables: () => Promise<readonly TableShape[]>,
  stop: AbortSignal,
): Promise<void> {
  if (!(await task.claim())) return;
  try {
    const table = findTable(await listTables(), source.database, task);
    await copyAtOnce(source, sink, table, wishOf(task), stop);
    task.done();
  } catch (error) {
    // Nothing else ended the run, whatever was found on the way.
    if (stop.aborted) throw stop.reason;
    task.failed(toMillraceError(error));
  }
}

/** What a copy is for. */
export interface CopyWish {
  readonly mode: CopyRequest["mode"];
  /** Called now and then with the rows and bytes that were taken so far, and how many rows there may be. */
  progress(rows: number, bytes: number, estimatedRows: number): void;
}

export function wishOf(task: OfferedTask): CopyWish {
  const mode = task.spec.truncate ? "replace" : "merge";
  return { mode, progress: (rows, bytes, estimated) => task.progress(rows, bytes, estimated) };
}

/** Returns when the sink has the rows durably. `part`: rows that the table's copy lacks; absent: the whole table. */
export async function copyAtOnce(
  source: Source,
  sink: Sink,
  table: TableShape,
  wish: CopyWish,
  stop: AbortSignal,
  part?: CopyPart,
): Promise<void> {
  await sink.flush();
  await using point = await source.snapshotPoint(stop);
  const form = sink.copyForm(table);
  const { chunks, rowsRead } = source.copyTable(table, point, form, part);
  await sink.copyTable({
    ...{ table, form, chunks, rowsRead },
    lsn: point.lsn,
    timeUs: point.timeUs,
    mode: part ? "merge" : wish.mode,
    progress: (rows, bytes) => {
      if (!part) wish.progress(rows, bytes, Math.max(rows, table.estimatedRows));
    },
    ...(part ? { part } : {}),
  });
  if (!part) source.copied(table);
}

/** Throws `table_unavailable`. */
export function findTable(tables: readonly TableShape[], database: string, task: OfferedTask): TableShape {
  const { schema, name } = task.spec;
  if (task.spec.database !== database) {
    throw new MillraceError(
      "table_unavailable",
      `The connector reads the database ${database}, and no table of ${task.spec.database}.`,
    );
  }
  const table = tables.find(({ relation }) => relation.schema === schema && relation.name === name);
  if (table) return table;
  throw new MillraceError(
    "table_unavailable",
    `Table ${qualifiedName({ schema, name })} does not exist at the source, or the connector's catalog does not select it.`,
  );
}
