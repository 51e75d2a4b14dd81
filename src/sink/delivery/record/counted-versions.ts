// Where versions go on, by what the record tells of them. Pure.

import type { SinkRecord } from "./sink-record.ts";

/** The last version that is noted as given out. */
export function lastVersionOf({ checkpoint, versionSteps }: SinkRecord): bigint {
  const lastStep = versionSteps.at(-1)?.version ?? 0n;
  return lastStep > checkpoint.lastVersion ? lastStep : checkpoint.lastVersion;
}

/**
 * For a run that brings the tables of `selection`. Versions count changes. With fewer tables, changes that come again would have lower ones
 * than before, as would those behind them. So they go on above all that were sent. Where rows do not wait for a save, nobody noted which were
 * sent; but time passes faster than rows are sent. Itself when nothing changes.
 */
export function countedIn(record: SinkRecord, selection: string, nowMs: number): SinkRecord {
  if (record.selection === selection) return record;
  if (record.selection === null) return { ...record, selection };
  const versions = [lastVersionOf(record), record.sentVersion, BigInt(nowMs) * 1000n];
  const lastVersion = versions.reduce((most, each) => (each > most ? each : most));
  return { ...record, selection, checkpoint: { ...record.checkpoint, lastVersion } };
}
