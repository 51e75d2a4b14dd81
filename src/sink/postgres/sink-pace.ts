// How patient a Postgres sink is with what nobody tells it of.

export interface SinkPace {
  /** How often the sink looks after what nobody tells it of. */
  readonly lookAtSetAsideMs: number;
  /** For how long a transaction in progress may stand still at the sink. */
  readonly inProgressIdleMs: number;
}

export const sinkPace: SinkPace = { lookAtSetAsideMs: 5_000, inProgressIdleMs: 60_000 };
