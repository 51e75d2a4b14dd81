// Copies one table for a snapshot task: incrementally, or, if the sink asks for that, while the stream waits; or without a stream.

import type { TableShape } from "../../change/relation.ts";
import type { CopyMode, TableCopy } from "../../sink/copy-sink.ts";
import type { SnapshotPoint } from "../../source/table-source.ts";
import { atHeldPoint } from "../held-point.ts";
import type { OfferedTask } from "../run-reporter.ts";
import { findTable, type TaskContext } from "../tasks/task-context.ts";
import { type CopyEnvironment, passedPoint, pointsFromNow, waitingStream } from "./copy-environment.ts";
import { CopyPoints } from "./copy-points.ts";
import { type CopyOfTable, copyChunks, finishCopy, startCopy, tellersOf } from "./copy-table.ts";

/** A table that a task asks for. */
interface AskedCopy {
  readonly environment: CopyEnvironment;
  readonly table: TableShape;
  readonly task: OfferedTask;
  readonly signal: AbortSignal;
}

/** Returns when the rows are durable at the sink. Throws the copy's error, or the reason of `signal`. */
export async function copyForTask(
  environment: CopyEnvironment,
  context: TaskContext,
  task: OfferedTask,
  signal: AbortSignal,
): Promise<void> {
  while (!(await attempt({ environment, task, signal }, context))) {}
}

/** Returns false if a first copy of the table began meanwhile: try again when that has ended. */
async function attempt(asking: Omit<AskedCopy, "table">, context: TaskContext): Promise<boolean> {
  const { task, signal } = asking;
  const { source, sink, betweenBatches } = asking.environment;
  const { listTables, copyBlocker, first, whileWaiting } = context;
  const find = async () => findTable(await listTables(), source.database, task);
  const table = await betweenBatches(find, signal);
  const blocker = copyBlocker(table);
  if (blocker) throw blocker;
  // The first copy may have older rows, and would overwrite this copy's with them.
  await first.ended(table, signal);
  const asked = { ...asking, table };
  const copy = await betweenBatches(async () => {
    if (first.isUnderWay(table)) return null;
    const begun = await sink.copies.begin(table, modeOf(task), "runs", signal);
    if (begun.stream === "waits")
      await whileWaiting(table, () => whileShown(asked, () => copyNow(asked, begun)));
    return begun;
  }, signal);
  if (copy === null) return false;
  if (copy.stream === "waits") return true;
  if (copy.stream === "stands") return await copyAsStreamStands(asked, context);
  await using _copy = copy;
  await whileShown(asked, () => copyAsStreamRuns(asked, context, copy));
  return true;
}

/** Copies the table where the stream stands exactly at a point. Returns as `attempt`. */
async function copyAsStreamStands(asked: AskedCopy, { first, whileWaiting }: TaskContext): Promise<boolean> {
  const { environment, table, task, signal } = asked;
  return await atHeldPoint(environment, signal, async (point) => {
    if (first.isUnderWay(table)) return false;
    const copy = await environment.sink.copies.begin(table, modeOf(task), "waits", signal);
    await whileWaiting(table, () => whileShown(asked, () => copyNow(asked, copy, point)));
    return true;
  });
}

/** Copies the table while the stream goes on. */
async function copyAsStreamRuns(asked: AskedCopy, context: TaskContext, copy: TableCopy): Promise<void> {
  const { environment, table, task, signal } = asked;
  const before = await passedPoint(environment, signal);
  const of = { table, copy, signal, ...tellersOfTask(asked) };
  const isDivided = task.spec.Snapshot?.force_parallel === true;
  const pace = isDivided ? { ...environment.pace, dividedFromBytes: 0 } : environment.pace;
  const started = await startCopy({ ...environment, pace }, of);
  {
    await using points = await pointsFromNow(environment, signal);
    await copyChunks(environment, started, points);
  }
  const done = await finishCopy(environment, started, context.listTables);
  environment.source.copied(table, before);
  if (done === "incomplete") await untilComplete(asked, context);
}

/** The table's state says that it is being copied. */
async function whileShown(
  { environment: { states }, table }: AskedCopy,
  copy: () => Promise<void>,
): Promise<void> {
  states.began(table);
  try {
    await copy();
    states.copied(table);
  } catch (error) {
    states.gaveUp(table);
    throw error;
  }
}

/** Rows that were copied by key are ahead of the stream. What it brings until it has passed their point may leave others incomplete. */
async function untilComplete(
  { environment, table, signal }: AskedCopy,
  { listTables, copies }: TaskContext,
): Promise<void> {
  do {
    await passedPoint(environment, signal);
    await environment.betweenBatches(listTables, signal);
    const failure = copies.unreadable.waitingFor(table);
    if (failure) throw failure;
  } while (copies.wasIncomplete(table));
}

/** Without a stream. */
export async function copyWithoutStream(
  environment: CopyEnvironment,
  table: TableShape,
  task: OfferedTask,
  signal: AbortSignal,
): Promise<void> {
  const copy = await environment.sink.copies.begin(table, modeOf(task), "waits", signal);
  const asked = { environment, table, task, signal };
  await whileShown(asked, () => copyNow(asked, copy));
}

function modeOf({ spec }: OfferedTask): CopyMode {
  return spec.Snapshot?.truncate ? "replace" : "merge";
}

/** Copies the whole table as of one point, while the stream waits. `at`: the point; absent: now. */
async function copyNow(asked: AskedCopy, copy: TableCopy, at?: SnapshotPoint): Promise<void> {
  await using _copy = copy;
  const { environment, table, signal } = asked;
  const { source, sink } = environment;
  const now = { ...environment, ...waitingStream };
  await sink.flush();
  const point = at ?? (await source.snapshotPoint(signal));
  await using points = new CopyPoints(point, null);
  const started = await startCopy(now, { table, copy, signal, ...tellersOfTask(asked) }, true);
  await copyChunks(now, started, points);
  await finishCopy(now, started);
  source.copied(table);
}

function tellersOfTask({ environment: { states }, table, task }: AskedCopy) {
  const told = tellersOf(states, table);
  const progress: CopyOfTable["progress"] = (rows, bytes) => {
    task.progress(rows, bytes, Math.max(rows, table.estimatedRows));
    told.progress(rows, bytes);
  };
  return { ...told, progress };
}
