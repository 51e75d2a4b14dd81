// Decides whether and when a failed run is retried. Pure.

import type { ErrorCode } from "../../errors/error-codes.ts";
import type { MillraceError } from "../../errors/millrace-error.ts";

/** Consecutive failures of one run without progress in between. */
export interface FailureStreak {
  readonly count: number;
  /** When the retry window began, in milliseconds on the clock of `nowMs`; null: the last failure is retried without an end. */
  readonly windowSinceMs: number | null;
}

export type RestartDecision =
  | { readonly action: "restart"; readonly delayMs: number; readonly attempt: number }
  | { readonly action: "fail"; readonly reason: string };

const initialBackoffMs = 250;
/** Low enough for a run to resume within 10 s of the cause's end. */
export const maxBackoffMs = 5_000;
export const defaultRetryWindowMs = 300_000;

/**
 * The streak with one more failure. Pass null after progress: that begins a new streak. What is retried without an end, as a sink that is away for
 * a night, uses nothing up of the window of what fails next.
 */
export function addFailure(
  streak: FailureStreak | null,
  { code }: Pick<MillraceError, "code">,
  nowMs: number,
): FailureStreak {
  const count = (streak?.count ?? 0) + 1;
  return { count, windowSinceMs: isEndless(code) ? null : (streak?.windowSinceMs ?? nowMs) };
}

/** So many fencings within `fencingsMs` mean that another service uses the id. */
const mostFencings = 3;
const fencingsMs = 600_000;

/**
 * A request for a producer may arrive late: from a replica that was frozen as it began, or from this run, held back by the network. It then
 * fences the producer that has begun since. Each such request does so once. So a fenced producer begins again, unless it is fenced again and
 * again. `before`: when that happened.
 */
export function mayFenceBack(before: readonly number[], nowMs: number): boolean {
  return before.filter((atMs) => nowMs - atMs < fencingsMs).length < mostFencings;
}

/**
 * A permanent error ends the run. A transient one is retried with exponential backoff and jitter (`random` in [0, 1)):
 * forever if the sink is the cause, otherwise for `retryWindowMs`.
 */
export function decideRestart(
  error: MillraceError,
  streak: FailureStreak,
  options: {
    readonly nowMs: number;
    readonly retryWindowMs: number;
    readonly random: number;
    /** A producer that was fenced begins again. */
    readonly fencesBack?: boolean;
  },
): RestartDecision {
  const isRetried = error.code === "kafka_fenced" && options.fencesBack === true;
  if (error.retry === "permanent" && !isRetried) return { action: "fail", reason: error.message };
  const inWindowMs = options.nowMs - (streak.windowSinceMs ?? options.nowMs);
  if (!isRetried && inWindowMs >= options.retryWindowMs) {
    const seconds = Math.round(options.retryWindowMs / 1000);
    return {
      action: "fail",
      reason: `${error.message} Given up after ${seconds} s and ${streak.count} attempts (retry_window_seconds); Start tries again.`,
    };
  }
  const ceiling = Math.min(maxBackoffMs, initialBackoffMs * 2 ** Math.min(streak.count - 1, 20));
  return {
    action: "restart",
    delayMs: Math.round(ceiling / 2 + (options.random * ceiling) / 2),
    attempt: streak.count,
  };
}

/** Failures that last until somebody fixes them. Nothing is lost meanwhile: the source retains the changes. */
function isEndless(code: ErrorCode): boolean {
  return code.startsWith("sink_") || code === "state_unavailable";
}
