// Copies one table for a task, between two batches of the stream. The table's rows are those of a consistent point that
// is later than where the stream stands; the sink leaves out, or outranks, what the stream still brings from before it.

import { qualifiedName, type TableShape } from "../change/relation.ts";
import { MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import type { Sink } from "../sink/sink.ts";
import type { Source } from "../source/source.ts";
import type { OfferedTask } from "./run-reporter.ts";

/** Reports the outcome on the task; throws only what ends the run. */
export async function runSnapshotTask(
  source: Source,
  sink: Sink,
  task: OfferedTask,
  signal: AbortSignal,
): Promise<void> {
  if (!(await task.claim())) return;
  try {
    const table = await findTable(source, task);
    await sink.flush();
    await using point = await source.snapshotPoint();
    const form = sink.copyForm(table);
    await sink.copyTable({
      table,
      form,
      chunks: source.copyTable(table, point, form).chunks,
      lsn: point.lsn,
      timeUs: point.timeUs,
      mode: task.spec.truncate ? "replace" : "merge",
      progress: (rows, bytes) => task.progress(rows, bytes, Math.max(rows, table.estimatedRows)),
    });
    task.done();
  } catch (error) {
    if (signal.aborted) throw error;
    task.failed(toMillraceError(error));
    // The sink may have been left in the middle of it.
    if (toMillraceError(error).code !== "table_unavailable") throw error;
  }
}

async function findTable(source: Source, task: OfferedTask): Promise<TableShape> {
  const { schema, name } = task.spec;
  const tables = await source.tables();
  const table = tables.find(({ relation }) => relation.schema === schema && relation.name === name);
  if (table) return table;
  throw new MillraceError(
    "table_unavailable",
    `Table ${qualifiedName({ schema, name })} does not exist at the source, or the connector's catalog does not select it.`,
  );
}
