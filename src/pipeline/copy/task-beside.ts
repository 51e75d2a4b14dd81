// Copies one table for a task beside the stream, which goes on, for this table too. What has to stand between two batches asks for a
// turn. Where the sink cannot take the table so, the copy is made in one turn.

import type { Lsn } from "../../change/lsn.ts";
import type { Relation } from "../../change/relation.ts";
import type { OfferedTask } from "../run-reporter.ts";
import { RunningTasks, type RunningTasksOptions } from "../running-tasks.ts";
import type { StreamEvents } from "../stream-events.ts";
import {
  type BesideStream,
  besidePoints,
  copyRowsBeside,
  endBeside,
  passedPoint,
  settleBeside,
} from "./copy-beside-stream.ts";
import { type CopyPace, defaultCopyPace } from "./copy-pace.ts";
import { CopyRoom } from "./copy-room.ts";
import { copyFirst, type FirstCopies } from "./first-copies.ts";
import { copyAtOnce, findTable, wishOf } from "./snapshot-task.ts";

/** At once, where there are connections for them. */
const mostTasks = 2;
/** What a task reads as of, and at times the one that follows. */
const pointsOfTask = 2;
/** That a task waits for. */
const mostLooks = 2;
/** What a copy between two batches takes: a point, what that is asked for by, and a connection to read by. */
const betweenBatches = 3;

interface TasksRequest extends Pick<RunningTasksOptions, "tasks" | "stop"> {
  readonly parallelCopies: number;
  /** Tasks then leave what a copy between two batches takes, of a new table or of rows that are owed. */
  readonly areConnectionsBounded?: boolean;
  readonly copyPace?: CopyPace;
}

/** Tasks, and first copies, at once, and what all of them read side by side. Each beyond the first needs connections for points of its own. Pure. */
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
  stream: Pick<BesideStream, "source" | "sink" | "place" | "listTables" | "hindrance">,
  events: StreamEvents,
  first: FirstCopies,
  ended: () => void,
): RunningTasks {
  const { tasks, stop, copyPace: pace = defaultCopyPace } = request;
  const { limit, parallel } = taskShares(request);
  const turn: BesideStream["turn"] = (action, signal) => events.turn(action, signal);
  const beside = { ...stream, room: new CopyRoom(parallel), parallel, turn, pace };
  // Where connections are bounded, there is one to read by beside what tasks take.
  const mostFirst = request.areConnectionsBounded ? 1 : parallel;
  const firstBeside = { ...beside, room: new CopyRoom(mostFirst), parallel: mostFirst };
  const running = new RunningTasks({
    tasks,
    stop,
    limit,
    work: async (task, cut) => {
      while (!(await copyBeside(beside, first, task, cut))) {}
    },
    ended: () => {
      ended();
      events.wake();
    },
    failed: (error) => events.fail(error),
  });
  first.onBegun((begun) => {
    const tables = begun.map(({ table: { relation } }) => ({
      database: stream.source.database,
      ...relation,
    }));
    running.startOwn(tables, (cut) => copyFirst(firstBeside, first, begun, cut));
  });
  return running;
}

/**
 * Returns when the sink has the table's rows durably. Throws what the copy failed of, or the reason of `cut`, which ends it. False: it
 * had to wait for the table's first copy, and is to begin anew.
 */
async function copyBeside(
  beside: BesideStream,
  first: FirstCopies,
  task: OfferedTask,
  cut: AbortSignal,
): Promise<boolean> {
  const { source, sink, turn } = beside;
  const table = await turn(async () => findTable(await beside.listTables(), source.database, task), cut);
  const hindrance = beside.hindrance(table);
  if (hindrance) throw hindrance;
  const wish = wishOf(task);
  // The first copy may have rows from before this one's, and would put them over it.
  if (first.isOnItsWay(table)) {
    await first.ended(table, cut);
    return false;
  }
  const before = await passedPoint(beside, cut);
  const begun = await turn(async () => {
    if (first.isOnItsWay(table)) return "not yet";
    const begun = await sink.beginBeside(table, wish.mode, cut);
    if (begun === null) await copyAtOnce(source, sink, table, wish, cut);
    return begun;
  }, cut);
  if (begun === "not yet") return false;
  if (begun === null) return true;
  const each = { table, copy: begun, wish, cut };
  {
    await using _end = { [Symbol.asyncDispose]: () => endBeside(beside, each) };
    {
      await using points = begun.goBefore ? null : await besidePoints(beside, cut);
      await copyRowsBeside(beside, each, points);
    }
    await settleBeside(beside, each);
    source.copied(table, before);
  }
  await untilAsOfOnePlace(beside, table.relation, cut);
  return true;
}

/**
 * Rows that the task had to copy by their keys are as of later than the others, until the stream has come there too. What it brings of
 * them in part meanwhile is copied by the look at the tables, as of later again: a source that moves just these rows on and on does not
 * keep the task for ever.
 */
async function untilAsOfOnePlace(
  { sink, place, turn, listTables }: BesideStream,
  relation: Relation,
  cut: AbortSignal,
): Promise<void> {
  let before: Lsn | null = null;
  for (let looks = 0; looks < mostLooks; looks++) {
    const ahead = sink.aheadOf(relation);
    // What is owed cannot be copied now: the run goes on trying.
    if (ahead === null || ahead === before) return;
    before = ahead;
    try {
      await place.passed(ahead, cut);
      if (sink.aheadOf(relation) !== null) await turn(listTables, cut);
    } catch (error) {
      if (cut.aborted) throw error;
      // The copy is made. The run looks at the tables by itself as well, and tells what it fails of.
      return;
    }
  }
}
