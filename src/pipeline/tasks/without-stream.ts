// Runs a task of a run without a stream: a copy can be made, and nothing else.

import { MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { CopyEnvironment } from "../copy/copy-environment.ts";
import { copyWithoutStream } from "../copy/snapshot-task.ts";
import { noReplay } from "../replay/replay-task.ts";
import type { OfferedTask } from "../run-reporter.ts";
import { findTable, type TaskContext } from "./task-context.ts";

/** Reports the outcome on the task. Throws only if `stop` fired: then the task has no outcome. */
export async function runTaskWithoutStream(
  environment: CopyEnvironment,
  task: OfferedTask,
  listTables: TaskContext["listTables"],
  stop: AbortSignal,
): Promise<void> {
  if (!(await task.claim())) return;
  try {
    if (task.spec.Verify) throw noStream();
    if (task.spec.Replay) throw noReplay();
    const table = findTable(await listTables(), environment.source.database, task);
    await copyWithoutStream(environment, table, task, stop);
    task.done();
  } catch (error) {
    // The stop has caused the error, whatever it says.
    if (stop.aborted) throw stop.reason;
    task.failed(toMillraceError(error));
  }
}

function noStream(): MillraceError {
  return new MillraceError(
    "unsupported_kind",
    "Without a stream the sink has the rows of the last round, and the source has gone on since: there is no place of the log at which both could be compared.",
  );
}
