// The slot of a rig's connector is lost, and the connector resumes.

import { waitFor } from "../wait-for.ts";
import type { PipelineRig } from "./pipeline-rig.ts";

export async function dropSlot(rig: PipelineRig): Promise<void> {
  await rig.source(
    `select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = '${rig.slot}'`,
  );
}

/** Waits until the run has begun as it was told to, and every table is proved. */
export async function proved(rig: PipelineRig): Promise<void> {
  const unproved = "select table_name from millrace.table_copy where is_unproved and point_lsn > '0/0'";
  const areAll = async () => !rig.resumes && (await rig.sink(unproved)).length === 0;
  await waitFor("every table to be proved", areAll, { timeoutMs: 60_000 });
}

export interface Copied {
  /** Tables that were copied as a whole. */
  readonly whole: readonly string[];
  /** How many rows were copied by their keys. */
  readonly rows: number;
}

/** What was copied since the `from`-th copy. */
export function copiedSince(rig: PipelineRig, from: number): Copied {
  const copies = rig.copies.slice(from);
  const whole = copies.filter(({ part }) => part?.kind !== "rows").map(({ table }) => table);
  const rows = copies.reduce((sum, { part }) => sum + (part?.kind === "rows" ? part.keys.length : 0), 0);
  return { whole: [...new Set(whole)].sort(), rows };
}

/** Resumes until source and sink are equal. The source runs `sql` once the stream goes on. Returns what was copied. */
export async function resume(rig: PipelineRig, sql?: string): Promise<Copied> {
  const from = rig.copies.length;
  rig.resumes = true;
  rig.start();
  await rig.untilRealtime();
  if (sql !== undefined) await rig.source(sql);
  await proved(rig);
  await rig.expectEqual();
  return copiedSince(rig, from);
}
