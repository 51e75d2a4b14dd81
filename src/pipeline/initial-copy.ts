// Copies the tables that the sink does not hold yet, several at a time, all as of one consistent point.

import { qualifiedName, type TableShape } from "../change/relation.ts";
import type { Sink } from "../sink/sink.ts";
import type { SnapshotPoint, Source } from "../source/source.ts";
import type { ProgressMeter } from "./progress-meter.ts";
import type { RunReporter } from "./run-reporter.ts";

export interface InitialCopy {
  readonly source: Source;
  readonly sink: Sink;
  readonly reporter: RunReporter;
  readonly meter: ProgressMeter;
  /** Tables that are copied side by side. */
  readonly parallel: number;
  /** In the order in which they stand. */
  readonly isOrdered?: boolean | undefined;
  /** Finish the copies in hand, and begin no others. */
  readonly stop: AbortSignal;
}

/** Returns when every table's copy is durable, or when it was stopped. The first failure ends the others. */
export async function copyTables(
  copy: InitialCopy,
  tables: readonly TableShape[],
  point: SnapshotPoint,
): Promise<void> {
  const { snapshot } = copy.meter.progress;
  snapshot.tables = tables.length;
  snapshot.estimatedRows = tables.reduce((sum, table) => sum + table.estimatedRows, 0);
  // The largest first: it decides when the last one ends.
  const waiting = copy.isOrdered
    ? tables.toReversed()
    : tables.toSorted((a, b) => a.estimatedBytes - b.estimatedBytes);
  let failure: { readonly error: unknown } | null = null;
  const lane = async () => {
    for (let table = waiting.pop(); table && failure === null && !copy.stop.aborted; table = waiting.pop()) {
      try {
        await copyOne(copy, table, point);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, Math.min(copy.parallel, tables.length)) }, lane));
  // Assigned in the lanes, which the compiler does not see.
  const outcome = failure as { readonly error: unknown } | null;
  if (outcome) throw outcome.error;
}

async function copyOne(copy: InitialCopy, table: TableShape, point: SnapshotPoint): Promise<void> {
  const name = qualifiedName(table.relation);
  copy.reporter.phase({ name: "snapshot", table: name }, { kind: "start" });
  const form = copy.sink.copyForm(table);
  const { chunks } = copy.source.copyTable(table, point, form);
  await copy.sink.copyTable({
    table,
    form,
    chunks,
    lsn: point.lsn,
    timeUs: point.timeUs,
    mode: "initial",
    progress: (rows, bytes) => copy.meter.copying(name, rows, bytes),
  });
  copy.source.copied(table);
  copy.meter.copied(name);
  copy.reporter.phase({ name: "snapshot", table: name }, { kind: "complete" });
}
