// After a lost slot: compares tables with the source and mends them, one after the other, beside the stream. A table is proved once nothing
// differed at one place of the log, or what did is mended and cannot have left a damage elsewhere. One that cannot be compared now is tried again
// later, and the others go on.

import { setTimeout as sleep } from "node:timers/promises";
import { qualifiedName, type TableShape } from "../../change/relation.ts";
import { MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { RunningTasks } from "../tasks/running-tasks.ts";
import type { TaskContext } from "../tasks/task-context.ts";
import type { UnprovedTables } from "./unproved-tables.ts";
import type { VerifyEnvironment } from "./verify-environment.ts";
import { compareOnce } from "./verify-task.ts";

/** A row that was out of date may get another key before it is mended, and differs there. Each round leaves fewer such rows. */
const maxRounds = 10;
const firstRetryMs = 1_000;
const longestRetryMs = 60_000;

export interface Proofs {
  readonly environment: VerifyEnvironment;
  readonly context: TaskContext;
  readonly running: Pick<RunningTasks, "startOwn">;
  readonly unproved: UnprovedTables;
}

/** Returns at once. Tables that a run has proved stay so: the next one goes on with the others. */
export function proveTables(proofs: Proofs): void {
  for (const table of proofs.unproved.tables) start(proofs, table, 0);
}

function start(proofs: Proofs, table: TableShape, failures: number): void {
  proofs.running.startOwn("proof", [table], async (signal) => {
    const beganMs = performance.now();
    try {
      await prove(proofs, table, signal);
      proofs.unproved.ended(table, null);
    } catch (error) {
      const failure = toMillraceError(error);
      if (signal.aborted || failure.code === "stream_form_changed") throw failure;
      proofs.unproved.ended(table, failure.message);
      const waitMs = nextTryMs(failures, performance.now() - beganMs);
      // Others have their turn meanwhile.
      void sleep(waitMs, undefined, { signal }).then(
        () => start(proofs, table, failures + 1),
        () => {},
      );
    }
  });
}

/** At least as long as the last attempt took: a table that can never be compared must not keep both servers reading all the time. Pure. */
export function nextTryMs(failures: number, tookMs: number): number {
  return Math.max(tookMs, Math.min(longestRetryMs, firstRetryMs * 2 ** failures));
}

async function prove(proofs: Proofs, { relation }: TableShape, signal: AbortSignal): Promise<void> {
  const { environment, context, unproved } = proofs;
  const { betweenBatches, sink } = environment;
  for (let rounds = 0; rounds < maxRounds; rounds++) {
    await betweenBatches(context.currentTables, signal);
    const table = unproved.tables.find((other) => other.relation.id === relation.id);
    // It was dropped, or a copy has taken the place of its rows.
    if (!table) return;
    unproved.comparing(table, 0);
    const { result, haveRowsMoved } = await compareOnce(
      environment,
      context,
      {
        find: (tables) => sameTable(tables, table, unproved),
        progress: (rows) => unproved.comparing(table, rows),
        spec: { repair: "Apply" },
        // What was changed while there was no slot.
        expected: "Many",
      },
      signal,
    );
    const isProved = await betweenBatches(async () => {
      const haveMoved = haveRowsMoved();
      // A row that was copied by its key equals the source's, as one of a copy does. But one that moved before it was copied left a damage elsewhere.
      if (haveMoved && result.repaired > 0) return false;
      // Before the next batch: it is to find whole rows.
      if (await sink.verification?.proved(table, haveMoved)) await context.listTables();
      else unproved.proved(table);
      return true;
    }, signal);
    if (isProved) return;
  }
  throw new MillraceError(
    "table_changed",
    `${qualifiedName(relation)} could not be proved by ${maxRounds} comparisons: its rows get other keys all the time.`,
  );
}

function sameTable(
  tables: readonly TableShape[],
  { relation }: TableShape,
  unproved: Pick<UnprovedTables, "tables">,
): TableShape {
  const isSame = (other: TableShape) => other.relation.id === relation.id;
  const table = tables.find(isSame);
  // Its first copy may have begun, which waits for the proofs to end.
  if (table && !unproved.tables.some(isSame))
    throw new MillraceError("table_changed", `${qualifiedName(relation)} is copied anew.`);
  if (table) return table;
  throw new MillraceError("table_unavailable", `Table ${qualifiedName(relation)} does not exist any more.`);
}
