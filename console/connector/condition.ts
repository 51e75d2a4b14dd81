// How a connector is, in one word and with what somebody should know. Pure.

import type { ConnectorStatus } from "../../src/connector/status.ts";

export type Tone = "bad" | "warning" | "busy" | "good" | "idle";

export interface Condition {
  readonly tone: Tone;
  readonly word: string;
  /** What is wrong, or what it does now; null: the word says it all. */
  readonly detail: string | null;
  /** Needs somebody: lower comes first. */
  readonly rank: number;
}

/** From here on a connector that streams counts as behind. */
export const behindSeconds = 60;

export function conditionOf(status: ConnectorStatus): Condition {
  const { state, status: health } = status;
  if (health.failed) return { tone: "bad", word: "Failed", detail: health.failed.reason, rank: 0 };
  if (health.retry) {
    const { attempt, reason } = health.retry;
    return { tone: "bad", word: "Retrying", detail: `Attempt ${attempt}: ${reason}`, rank: 1 };
  }
  const aside = status.tables_set_aside?.length ?? 0;
  if (aside > 0) {
    const detail = aside === 1 ? "1 table is set aside." : `${aside} tables are set aside.`;
    return { tone: "warning", word: "Needs you", detail, rank: 2 };
  }
  if (health.warning) return { tone: "warning", word: "Warning", detail: health.warning.reason, rank: 3 };
  if (health.skipped) return { tone: "warning", word: "Skipped", detail: health.skipped.reason, rank: 4 };
  const lag = status.progress?.lag_seconds ?? 0;
  if (state.realtime && lag >= behindSeconds)
    return { tone: "warning", word: "Behind", detail: null, rank: 5 };
  return healthy(state);
}

function healthy(state: ConnectorStatus["state"]): Condition {
  if (state.initialize)
    return { tone: "busy", word: "Preparing", detail: state.initialize.sub_state, rank: 6 };
  if (state.snapshot) return { tone: "busy", word: "Copying", detail: state.snapshot.name, rank: 6 };
  if (state.start) return { tone: "busy", word: "Starting", detail: null, rank: 6 };
  if (state.realtime) return { tone: "good", word: "Streaming", detail: null, rank: 7 };
  if (state.scheduled) return { tone: "good", word: "Scheduled", detail: null, rank: 8 };
  if (state.complete) return { tone: "good", word: "Complete", detail: null, rank: 8 };
  if (state.shutdown) return { tone: "idle", word: "Stopped", detail: null, rank: 9 };
  return { tone: "idle", word: "Disabled", detail: null, rank: 9 };
}

/** The one side that a filter or a label knows. */
export function kindOf(union: Readonly<Record<string, unknown>>): string {
  return Object.keys(union)[0] ?? "";
}
