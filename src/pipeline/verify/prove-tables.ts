// After a lost slot: compares tables with the source and mends them, one after the other, beside the stream. A table is proved once
// what differed at one place of the log is mended. One that cannot be compared now is tried again later, and the others go on.

import { setTimeout as sleep } from "node:timers/promises";
import { qualifiedName, type TableShape } from "../../change/relation.ts";
import { MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { SinkRows } from "../../sink/verify-sink.ts";
import { causeOf } from "../copy/copy-table.ts";
import type { RunningTasks } from "../tasks/running-tasks.ts";
import type { TaskContext } from "../tasks/task-context.ts";
import type { UnprovedTables } from "./unproved-tables.ts";
import type { VerifyEnvironment } from "./verify-environment.ts";
import { compareOnce } from "./verify-task.ts";

/** Each comparison leaves only what rows that were out of date have become under other keys. */
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
    try {
      await prove(proofs, table, signal);
      proofs.unproved.ended(table, null);
    } catch (error) {
      const failure = toMillraceError(causeOf(error));
      if (signal.aborted || failure.code === "stream_form_changed") throw failure;
      proofs.unproved.ended(table, failure.message);
      const waitMs = Math.min(longestRetryMs, firstRetryMs * 2 ** failures);
      // Others have their turn meanwhile.
      void sleep(waitMs, undefined, { signal }).then(
        () => start(proofs, table, failures + 1),
        () => {},
      );
    }
  });
}

async function prove(proofs: Proofs, { relation }: TableShape, signal: AbortSignal): Promise<void> {
  const { environment, context, unproved } = proofs;
  const { betweenBatches, sink } = environment;
  for (let rounds = 0; rounds < maxRounds; rounds++) {
    await betweenBatches(context.listTables, signal);
    const table = unproved.tables.find((other) => other.relation.id === relation.id);
    // It was dropped, or a copy has taken the place of its rows.
    if (!table) return;
    let isProved = false;
    // A row that was copied by its key equals the source's, as one of a copy does. But one that moved before it was copied left a damage elsewhere.
    const mended = (rows: SinkRows) =>
      betweenBatches(async () => {
        isProved = !rows.haveRowsMoved();
        if (isProved) await sink.verification?.proved(table);
      }, signal);
    unproved.comparing(table, 0);
    await compareOnce(
      environment,
      context,
      {
        find: (tables) => sameTable(tables, table),
        progress: (rows) => unproved.comparing(table, rows),
        spec: { repair: "Apply" },
        // What was changed while there was no slot.
        expected: "Many",
        mended,
      },
      signal,
    );
    // Its history can be compared with it now.
    if (isProved) return void (await betweenBatches(context.listTables, signal));
  }
  throw new MillraceError(
    "table_changed",
    `${qualifiedName(relation)} was not to be compared in ${maxRounds} attempts: its rows get other keys all the time.`,
  );
}

function sameTable(tables: readonly TableShape[], { relation }: TableShape): TableShape {
  const table = tables.find((other) => other.relation.id === relation.id);
  if (table) return table;
  throw new MillraceError("table_unavailable", `Table ${qualifiedName(relation)} does not exist any more.`);
}
