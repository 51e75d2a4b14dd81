// Compares a table at the sink with its source for a task, and mends what differs if that is asked for.

import { qualifiedName, type TableShape } from "../../change/relation.ts";
import type { Expected } from "../../comparison/bucket-differences.ts";
import { isKeyed } from "../../comparison/digest-sql.ts";
import type { RowDifference, UnmatchedRows } from "../../comparison/unmatched-rows.ts";
import { untilAborted } from "../../concurrency/until-aborted.ts";
import type { VerifySpec } from "../../connector/task.ts";
import type { VerifyResult } from "../../connector/verification.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { SinkRows } from "../../sink/verify-sink.ts";
import type { OfferedTask } from "../run-reporter.ts";
import { findTable, type TaskContext } from "../tasks/task-context.ts";
import { requireFindable } from "./findable-keys.ts";
import { asOf, type OpenedSides, openSides } from "./opened-sides.ts";
import { RowRepair } from "./repair-rows.ts";
import { type SampledRow, sampleRows } from "./sampled-rows.ts";
import { scanBuckets, scanRows } from "./scan-sides.ts";
import type { VerifyEnvironment } from "./verify-environment.ts";

const maxSample = 100;
/**
 * Before a row is mended, the source may give it another key: the sink then takes values that the change leaves alone from the damaged row, under
 * that key. So the table is compared again where rows were mended. After so many rounds, what differs still is counted, and left.
 */
const maxRepairs = 4;

/** Returns what was found. Repaired rows are durable at the sink. Throws why the table cannot be compared, or the reason of `signal`. */
export async function verifyForTask(
  environment: VerifyEnvironment,
  context: TaskContext,
  task: OfferedTask,
  spec: VerifySpec,
  signal: AbortSignal,
): Promise<VerifyResult> {
  const asked: AskedComparison = {
    find: (tables) => findTable(tables, environment.source.database, task),
    progress: (rows, table) => task.progress(rows, 0, table.estimatedRows),
    spec,
    expected: "Few",
  };
  let { result: found } = await compareOnce(environment, context, asked, signal);
  let total = found;
  for (let repairs = 1; found.repaired > 0; repairs++) {
    const next = repairs < maxRepairs ? asked : { ...asked, spec: { ...spec, repair: "None" as const } };
    found = (await compareOnce(environment, context, next, signal)).result;
    total = sumOf(total, found);
  }
  return total;
}

/** What is to be compared, and how. */
export interface AskedComparison {
  /** Throws why there is no such table. */
  readonly find: (tables: readonly TableShape[]) => TableShape;
  /** Called with how many of the table's rows have been looked at. */
  readonly progress: (rows: number, table: TableShape) => void;
  readonly spec: Pick<VerifySpec, "repair" | "sample_percent">;
  /** How many rows are likely to differ: what is cheapest depends on it, and not what is found. */
  readonly expected: Expected;
}

export interface Compared extends Pick<SinkRows, "haveRowsMoved"> {
  readonly result: VerifyResult;
}

/** Compares the table as of one place of the log, and mends what differs there if that is asked for. */
export async function compareOnce(
  environment: VerifyEnvironment,
  context: TaskContext,
  asked: AskedComparison,
  signal: AbortSignal,
): Promise<Compared> {
  const { table, opened } = await openTable(environment, context, asked, signal);
  await using _opened = opened;
  if (asked.spec.repair === "Apply" && opened.sink.repairBlocker !== null) throw notRepairable(table, opened);
  const result = await compare(environment, opened, asked, signal);
  return { result, haveRowsMoved: () => opened.sink.haveRowsMoved() };
}

/** The last round says of which place of the log the table is known. */
function sumOf(before: VerifyResult, last: VerifyResult): VerifyResult {
  return {
    ...last,
    ranges: before.ranges + last.ranges,
    missing: before.missing + last.missing,
    extra: before.extra + last.extra,
    changed: before.changed + last.changed,
    repaired: before.repaired + last.repaired,
    sample: [...before.sample, ...last.sample].slice(0, maxSample),
  };
}

async function openTable(
  environment: VerifyEnvironment,
  context: TaskContext,
  asked: AskedComparison,
  signal: AbortSignal,
): Promise<Opened> {
  try {
    return await openAmong(context.currentTables, environment, context, asked, signal);
  } catch {
    signal.throwIfAborted();
    // Somebody may have altered or dropped the table at the sink, which only `listTables` finds.
    return await openAmong(context.listTables, environment, context, asked, signal);
  }
}

interface Opened {
  readonly table: TableShape;
  readonly opened: OpenedSides;
}

async function openAmong(
  list: TaskContext["listTables"],
  environment: VerifyEnvironment,
  { copyBlocker, first, copies }: TaskContext,
  { find: findAmong, spec }: AskedComparison,
  signal: AbortSignal,
): Promise<Opened> {
  const { betweenBatches } = environment;
  const find = async () => findAmong(await list());
  let table = await betweenBatches(find, signal);
  if (first.isUnderWay(table)) {
    await first.ended(table, signal);
    table = await betweenBatches(find, signal);
  }
  const reason = copyBlocker(table) ?? copies.unreadable.waitingFor(table);
  if (reason) throw reason;
  return { table, opened: await openSides(environment, table, spec.sample_percent ?? null, signal) };
}

async function compare(
  environment: VerifyEnvironment,
  opened: OpenedSides,
  { progress: tell, spec: { repair }, expected }: AskedComparison,
  signal: AbortSignal,
): Promise<VerifyResult> {
  const { table } = opened;
  const progress = (rows: number) => tell(Math.floor(rows / 2), table);
  const found = await scanBuckets(environment, opened, expected, signal, progress);
  const differing = found.differing();
  const counts = { missing: 0, extra: 0, changed: 0, repaired: 0 };
  const sample: SampledRow[] = [];
  const repairing = new RowRepair(environment, opened, signal, (rows) => {
    counts.repaired += rows;
  });
  for await (const unmatched of scanRows(environment, opened, found, differing, signal)) {
    if (unmatched.withoutKey > 0) throw withoutKey(opened);
    if (!isKeyed(opened.comparison)) countRows(unmatched, counts);
    for (const differences of unmatched.differences()) {
      count(differences, counts);
      if (repair !== "None") await requireFindable(environment, opened, differences, signal);
      const shown = differences.slice(0, maxSample - sample.length);
      sample.push(...(await sampleRows(environment, opened, shown, signal)));
      // Lets the stream go on between two parts.
      await untilAborted(Bun.sleep(0), signal);
      if (repair === "Apply") await repairing.take(differences);
    }
  }
  await repairing.finish();
  return {
    as_of_lsn: asOf(opened),
    rows: found.rows("source"),
    ranges: differing.length,
    ...counts,
    sample: sample.map(({ shown }) => shown),
    ...(repair === "DryRun" ? { statements: sample.map(({ statement }) => statement) } : {}),
  };
}

type Counts = Record<"missing" | "extra" | "changed", number>;

/** Without a key nobody can tell which row of the one side is which of the other. */
function countRows(unmatched: UnmatchedRows, counts: Counts): void {
  counts.missing += unmatched.count("source");
  counts.extra += unmatched.count("sink");
}

function count(differences: readonly RowDifference[], counts: Counts): void {
  for (const { kind } of differences) {
    if (kind === "Missing") counts.missing++;
    else if (kind === "Extra") counts.extra++;
    else counts.changed++;
  }
}

/** No statement finds such a row by its key. */
function withoutKey({ table: { relation }, sink }: OpenedSides): MillraceError {
  return new MillraceError(
    "sink_schema_mismatch",
    `The sink has rows of ${qualifiedName(relation)} whose key is NULL, which are none of the source's. This removes them there: ${sink.statement({ kind: "WithoutKey" })}`,
  );
}

function notRepairable({ relation }: TableShape, { sink }: OpenedSides): MillraceError {
  return new MillraceError(
    "unsupported_kind",
    `Rows of ${qualifiedName(relation)} cannot be repaired one by one. ${sink.repairBlocker}`,
  );
}
