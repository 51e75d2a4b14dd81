// How many tables a connector copies, and how many wait for that. Pure.

import type { CopyLoad } from "../../connector/service/run-report.ts";
import type { Status } from "../../connector/status.ts";
import type { RunMetrics } from "../threads/messages.ts";

export const noLoad: CopyLoad = { running: 0, waiting: 0 };

/** For the first time, or as a whole again. `snapshot` null: nothing was measured yet. */
export function copyLoadOf({ state, status }: Status, snapshot: RunMetrics["snapshot"] | null): CopyLoad {
  if (!state.snapshot || status.failed || status.retry) return noLoad;
  const { tables, tablesDone, copying } = snapshot ?? { tables: 0, tablesDone: 0, copying: 0 };
  // Measurements arrive a little later than status reports: one table has begun already.
  const running = status.start ? Math.max(1, copying) : copying;
  return { running, waiting: Math.max(0, tables - tablesDone - running) };
}

export function sumOfLoads(loads: Iterable<CopyLoad>): CopyLoad {
  let [running, waiting] = [0, 0];
  for (const load of loads) {
    running += load.running;
    waiting += load.waiting;
  }
  return { running, waiting };
}
