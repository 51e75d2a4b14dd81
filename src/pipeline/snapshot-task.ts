// Copies one table for a task, between two batches of the stream. The table's rows are those of a consistent point that is
// later than where the stream stands; the sink sees to it that what the stream still brings from before it does no harm.

import { qualifiedName, type TableShape } from "../change/relation.ts";
import { MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import type { Sink } from "../sink/sink.ts";
import type { Source } from "../source/source.ts";
import type { OfferedTask } from "./run-reporter.ts";

/**
 * Reports the outcome on the task. A copy that fails is undone, and the stream goes on; a sink that cannot go on says so by
 * itself. Throws only when the stream has to begin again in another form, and when the run was told to stop meanwhile:
 * then the task has no outcome.
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
    await sink.flush();
    await using point = await source.snapshotPoint(stop);
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
    source.copied(table);
    task.done();
  } catch (error) {
    // Nothing else ended the run, whatever was found on the way.
    if (stop.aborted) throw stop.reason;
    const failure = toMillraceError(error);
    task.failed(failure);
    if (failure.code === "stream_form_changed") throw failure;
  }
}

function findTable(tables: readonly TableShape[], database: string, task: OfferedTask): TableShape {
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
