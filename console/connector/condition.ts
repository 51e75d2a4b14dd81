// How a connector is, in one word and with what somebody should know. Pure.

import type { ConnectorStatus } from "../../src/connector/status.ts";
import { duration } from "../text/times.ts";
import { behindSeconds, type KnownConnector } from "./known-connector.ts";
import { needyTables } from "./needy-tables.ts";

export type Tone = "bad" | "warning" | "busy" | "good" | "idle";

export interface Condition {
  readonly tone: Tone;
  readonly word: string;
  /** What is wrong, or what it does now; null: the word says it all. */
  readonly detail: string | null;
  /** Needs somebody: lower comes first. */
  readonly rank: number;
}

export function conditionOf({ status, isBehind }: Pick<KnownConnector, "status" | "isBehind">): Condition {
  const { status: health } = status;
  if (health.failed) return { tone: "bad", word: "Failed", detail: health.failed.reason, rank: 0 };
  if (health.retry) return { tone: "bad", word: "Retrying", detail: health.retry.reason, rank: 1 };
  const aside = needyTables(status);
  const [table] = aside;
  if (table) {
    const detail =
      aside.length === 1
        ? `${table.schema}.${table.name} is set aside.`
        : `${aside.length} tables are set aside.`;
    return { tone: "warning", word: "Needs you", detail, rank: 2 };
  }
  const lag = status.progress?.lag_seconds ?? null;
  if (health.warning) {
    const detail = isBehind
      ? `${capitalized(behindWords(lag))}. ${health.warning.reason}`
      : health.warning.reason;
    return { tone: "warning", word: "Warning", detail, rank: 3 };
  }
  if (health.skipped) return { tone: "warning", word: "Skipped", detail: health.skipped.reason, rank: 4 };
  if (isBehind) {
    const why =
      lag !== null && lag < behindSeconds
        ? ", and it was more."
        : ": the sink takes less than comes, or nothing.";
    return { tone: "warning", word: "Behind", detail: capitalized(behindWords(lag)) + why, rank: 5 };
  }
  return healthy(status);
}

/** "4 min 10 s behind"; "behind" where nobody knows by how much. */
export function behindWords(lagSeconds: number | null): string {
  return lagSeconds === null ? "behind" : `${duration(lagSeconds)} behind`;
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function healthy({ state, progress }: ConnectorStatus): Condition {
  if (state.initialize)
    return { tone: "busy", word: "Preparing", detail: state.initialize.sub_state, rank: 6 };
  if (state.snapshot) {
    const detail = copiesSeveral(progress) ? null : state.snapshot.name;
    return { tone: "busy", word: "Copying", detail, rank: 6 };
  }
  if (state.start) return { tone: "busy", word: "Starting", detail: null, rank: 6 };
  if (state.realtime) return { tone: "good", word: "Streaming", detail: null, rank: 7 };
  if (state.scheduled) return { tone: "good", word: "Scheduled", detail: null, rank: 8 };
  if (state.complete) return { tone: "good", word: "Complete", detail: null, rank: 8 };
  if (state.shutdown) return { tone: "idle", word: "Stopped", detail: null, rank: 9 };
  return { tone: "idle", word: "Disabled", detail: null, rank: 9 };
}

/** The state names the table whose copy began last, which may be done before others that began earlier. */
export function copiesSeveral(progress: ConnectorStatus["progress"]): boolean {
  return (progress?.snapshot.tables ?? 0) > 1;
}

/** The one side that a filter or a label knows. */
export function kindOf(union: Readonly<Record<string, unknown>>): string {
  return Object.keys(union)[0] ?? "";
}
