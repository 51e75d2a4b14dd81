// The table that a task is for.

import type { SnapshotSpec, TaskSpec } from "./task.ts";

export type TaskTable = Pick<SnapshotSpec, "database" | "schema" | "name">;

export function tableOfTask({ Snapshot, Verify, Replay }: TaskSpec): TaskTable {
  const table = Snapshot ?? Verify ?? Replay;
  if (!table) throw new Error("a task of no kind");
  return table;
}
