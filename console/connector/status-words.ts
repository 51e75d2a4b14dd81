// Phase and health of a run as sentences. Pure.

import type { HistoryComponent, Status } from "../../src/connector/status.ts";
import type { Tone } from "./condition.ts";

/** What a run does in its phase. */
export function phaseWords(state: Status["state"]): string {
  if (state.start) return "Starting";
  if (state.initialize) return `Preparing: ${state.initialize.sub_state}`;
  if (state.snapshot) return `Copying ${state.snapshot.name}`;
  if (state.realtime) return "Streaming changes";
  if (state.scheduled) return "Waiting for the next copy";
  if (state.complete) return "All is copied";
  if (state.shutdown) return "Stopped";
  return "Disabled";
}

export interface HealthWords {
  readonly tone: Tone;
  readonly word: string;
  /** What is wrong, and what to do about it; null: nothing is. */
  readonly reason: string | null;
}

export function healthWords({ state, status }: Status): HealthWords {
  if (status.failed) return { tone: "bad", word: "Failed", reason: status.failed.reason };
  if (status.retry)
    return { tone: "bad", word: `Retry, attempt ${status.retry.attempt}`, reason: status.retry.reason };
  if (status.warning) return { tone: "warning", word: "Warning", reason: status.warning.reason };
  if (status.skipped) return { tone: "warning", word: "Skipped", reason: status.skipped.reason };
  if (state.shutdown || state.disabled) return { tone: "idle", word: phaseWords(state), reason: null };
  if (status.complete) return { tone: "good", word: "Complete", reason: null };
  if (status.start) return { tone: "busy", word: "Begins", reason: null };
  return { tone: state.realtime || state.scheduled ? "good" : "busy", word: "Goes on", reason: null };
}

/** The contract of the API calls the sink a target here. */
export function componentWord(component: HistoryComponent): string {
  return component === "Target" ? "Sink" : component;
}
