// Runs what a streaming run does beside its stream: tasks, first copies of tables that are added later, and comparisons after a lost slot. Divides
// the connections between them.

import { qualifiedName, type TableShape } from "../../change/relation.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { type CopyEnvironment, copyEnvironment } from "../copy/copy-environment.ts";
import { type CopyPace, defaultCopyPace } from "../copy/copy-pace.ts";
import { makeIncrementalCopies } from "../copy/incremental-copies.ts";
import { copyForTask } from "../copy/snapshot-task.ts";
import { isUnpublished } from "../locked-tables.ts";
import { replayForTask } from "../replay/replay-task.ts";
import type { OfferedTask } from "../run-reporter.ts";
import type { StreamEvents } from "../stream-events.ts";
import type { StreamPosition } from "../stream-position.ts";
import { proveTables } from "../verify/prove-tables.ts";
import type { VerifyEnvironment } from "../verify/verify-environment.ts";
import { verifyForTask } from "../verify/verify-task.ts";
import { RunningTasks, type RunningTasksOptions } from "./running-tasks.ts";
import type { TaskContext } from "./task-context.ts";

/** How many tasks run at once, if there are connections for them. */
const maxTasks = 2;
/** A task has a point, and for a while the next one too. Each takes a connection. */
const pointsPerTask = 2;
/** A blocking copy takes a point, the session that asks for it, and a connection to read by. */
const blockingCopyConnections = 3;

interface CopiesRequest extends Pick<RunningTasksOptions, "tasks" | "stop"> {
  readonly parallelCopies: number;
  /** Tasks then leave the connections free that a blocking copy takes. */
  readonly areConnectionsBounded?: boolean;
  readonly copyPace?: CopyPace;
  /** See `VerifyEnvironment.lanes`. */
  readonly verifyLanes?: number;
}

/** How many tasks run at once, and how many chunks all of them read at once. Each task beyond the first needs connections for its own points. Pure. */
export function taskShares({
  parallelCopies,
  areConnectionsBounded: isBounded = false,
}: Pick<CopiesRequest, "parallelCopies" | "areConnectionsBounded">): {
  readonly limit: number;
  readonly parallel: number;
} {
  const left = parallelCopies - (isBounded ? blockingCopyConnections : 0);
  const limit = left > pointsPerTask + 1 ? maxTasks : 1;
  return { limit, parallel: Math.max(1, left - pointsPerTask * (limit - 1)) };
}

interface RunningStream extends Pick<CopyEnvironment, "source" | "sink" | "states"> {
  readonly lagBytes: () => number;
  readonly position: StreamPosition;
  readonly events: StreamEvents;
}

/** `ended` is called when a task has ended. */
export function workWithStream(
  request: CopiesRequest,
  { source, sink, states, position, events, lagBytes }: RunningStream,
  given: Omit<TaskContext, "currentTables">,
  ended: () => void,
): RunningTasks {
  const { tasks, stop, copyPace: pace = defaultCopyPace, verifyLanes = 1 } = request;
  const { limit, parallel } = taskShares(request);
  const environmentOf = (most: number) =>
    copyEnvironment({ source, sink, states, pace }, most, {
      betweenBatches: (action, signal) => events.betweenBatches(action, signal),
      passed: (lsn, signal) => position.passed(lsn, signal),
      exactlyAt: (place, action, signal) => events.exactlyAt(place, action, signal),
    });
  const ofTasks = environmentOf(parallel);
  const ofVerifications: VerifyEnvironment = { ...ofTasks, lanes: verifyLanes, lagBytes };
  // If connections are bounded, tasks leave one to read by.
  const ofFirst = environmentOf(request.areConnectionsBounded ? 1 : parallel);
  // A listing that fails may have read the catalog already. The source then sees no change any more, and the run would never list the tables
  // again. So the run is asked to: it meets the reason itself.
  const listTables = () =>
    given.listTables().catch((error: unknown) => {
      events.refreshTables();
      throw error;
    });
  const currentTables = async () => {
    const { tables, unreadable } = given.copies;
    const isKnown = !events.areTablesDue && unreadable.isEmpty && !tables.some(isUnpublished);
    return isKnown && (await source.areTablesChanged?.()) === false ? tables : await listTables();
  };
  const context: TaskContext = { ...given, listTables, currentTables };
  const ofTask: TaskContext = {
    ...context,
    copyBlocker: (table) =>
      context.copyBlocker(table) ?? (running.isProving(table) ? beingProved(table) : null),
  };
  const running: RunningTasks = new RunningTasks({
    tasks,
    stop,
    limit,
    work: async (task: OfferedTask, signal) => {
      const { Verify: verify, Replay: replay } = task.spec;
      if (replay) return await replayForTask(ofTasks, ofTask, task, replay, signal);
      if (verify) return await verifyForTask(ofVerifications, ofTask, task, verify, signal);
      await copyForTask(ofTasks, ofTask, task, signal);
      return undefined;
    },
    idOf: ({ database, ...name }) => (database === source.database ? context.copies.idOf(name) : null),
    ended: () => {
      ended();
      events.wake();
    },
    failed: (error) => events.fail(error),
  });
  const { first, copies } = context;
  first.onBegun((begun) => {
    running.startOwn(
      "copies",
      begun.map(({ table }) => table),
      (signal) => makeIncrementalCopies(ofFirst, first, begun, context.listTables, signal),
    );
  });
  proveTables({ environment: ofVerifications, context, running, unproved: copies.unproved });
  return running;
}

function beingProved({ relation }: TableShape): MillraceError {
  return new MillraceError(
    "table_changed",
    `${qualifiedName(relation)} is being compared with the source after a lost slot, under another name until now.`,
  );
}
