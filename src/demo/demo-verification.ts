// The demo's verification: once the load has stopped, both sinks must become equal to the source, table by table.

import type { Client } from "pg";
import type { DemoStage } from "./demo-stage.ts";
import { pollUntil } from "./poll-until.ts";
import { compareReceived } from "./received-rows.ts";
import { compareTables, isEqual, type TableDifference } from "./table-comparison.ts";
import { listTables } from "./table-facts.ts";

export interface Verification {
  readonly postgres: readonly TableDifference[];
  readonly webhook: readonly TableDifference[];
  /** Deliveries with the same key and different bodies. There must be none. */
  readonly contradictions: number;
}

/** How long the sinks may take to catch up after the last write. */
const catchUpMs = 60_000;
const retryMs = 500;

export function isProven({ postgres, webhook, contradictions }: Verification): boolean {
  return [...postgres, ...webhook].every(isEqual) && contradictions === 0;
}

/** Compares until both sinks are equal or the time is up, and returns the last comparison. The source must be idle. */
export async function verify(stage: DemoStage, signal: AbortSignal): Promise<Verification> {
  await using source = await stage.connectToSource();
  await using sink = await stage.connectToSink();
  const tables = await listTables(source);
  await awaitMarker(source, stage, signal);
  const postgres = await untilEqual(() => compareTables(source, sink, tables), signal);
  const webhook = await untilEqual(() => compareReceived(source, stage.receiver.deliveries, tables), signal);
  return { postgres, webhook, contradictions: stage.receiver.contradictions.length };
}

/**
 * Writes a last row and waits until both sinks have it. The webhook sink sends tables in parallel, so rows of others
 * may follow.
 */
async function awaitMarker(source: Client, stage: DemoStage, signal: AbortSignal): Promise<void> {
  const marker = crypto.randomUUID();
  await source.query("insert into audit_log (entry) values (json_build_object('marker', $1::text))", [
    marker,
  ]);
  const options = { timeoutMs: catchUpMs, intervalMs: 100, signal };
  await using sink = await stage.connectToSink();
  const query = "select from audit_log where entry ->> 'marker' = $1";
  await pollUntil(
    "the last row is at the Postgres sink",
    async () => {
      // The table's initial copy may still be running.
      const { rows } = await sink.query("select to_regclass('audit_log') is not null as is_there");
      if (!rows[0]?.is_there) return false;
      const { rowCount } = await sink.query(query, [marker]);
      return rowCount === 1;
    },
    options,
  );
  const bodies = () => [...stage.receiver.deliveries.values()].reverse();
  await pollUntil(
    "the last row is at the receiver",
    () => bodies().some((d) => d.body.includes(marker)),
    options,
  );
}

async function untilEqual(
  compare: () => Promise<readonly TableDifference[]>,
  signal: AbortSignal,
): Promise<readonly TableDifference[]> {
  const deadline = performance.now() + catchUpMs;
  while (true) {
    signal.throwIfAborted();
    const differences = await compare();
    if (differences.every(isEqual) || performance.now() > deadline) return differences;
    await Bun.sleep(retryMs);
  }
}

/** The number of rows of all tables at the source. */
export function totalRows(differences: readonly TableDifference[]): number {
  return differences.reduce((sum, difference) => sum + difference.sourceRows, 0);
}
