// How patient a Postgres sink is with what nobody tells it of.

import { keptForTaskMs } from "../../connector/task-state.ts";

export interface SinkPace {
  /** How often the sink looks after what nobody tells it of. */
  readonly lookAtSetAsideMs: number;
  /** For how long a transaction in progress may stand still at the sink. */
  readonly inProgressIdleMs: number;
  /** For how long what was copied of a table is kept for a task that takes it up. */
  readonly keptCopyMs: number;
  /** For about how long the stream waits for a piece of what was kept of a table's changes. */
  readonly keptPieceMs: number;
}

export const sinkPace: SinkPace = {
  lookAtSetAsideMs: 5_000,
  inProgressIdleMs: 60_000,
  keptCopyMs: keptForTaskMs,
  keptPieceMs: 100,
};
