// How often a Postgres sink checks things that nobody announces, and how long it waits for them.

import { keptForTaskMs } from "../../connector/task-state.ts";

export interface SinkPace {
  /** How often the sink checks whether tables that are set aside can go on, and whether a copy is overdue. */
  readonly recheckMs: number;
  /** How long a transaction in progress may be idle at the sink. */
  readonly inProgressIdleMs: number;
  /** How long an interrupted copy is kept for a task that resumes it. */
  readonly copyRetentionMs: number;
}

export const sinkPace: SinkPace = {
  recheckMs: 5_000,
  inProgressIdleMs: 60_000,
  copyRetentionMs: keptForTaskMs,
};
