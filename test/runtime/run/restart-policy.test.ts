// When a failed run is retried.

import { expect, test } from "bun:test";
import type { ErrorCode } from "../../../src/errors/error-codes.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import {
  addFailure,
  decideRestart,
  type FailureStreak,
  maxBackoffMs,
} from "../../../src/runtime/run/restart-policy.ts";

function decide(code: ErrorCode, streak: FailureStreak, nowMs: number, random = 0) {
  const error = new MillraceError(code, "It broke.");
  return decideRestart(error, streak, { nowMs, retryWindowMs: 300_000, random });
}

test("a permanent error ends the run at once, with its reason", () => {
  const decision = decide("source_authentication_failed", { count: 1, windowSinceMs: 0 }, 0);
  expect(decision).toEqual({ action: "fail", reason: "It broke." });
});

test("a transient one is retried after a wait that doubles up to its limit, half of it random", () => {
  const waits = [1, 2, 3, 4, 5, 6, 50].map((count) => {
    const decision = decide("source_unreachable", { count, windowSinceMs: 0 }, 0, 1);
    return decision.action === "restart" ? decision.delayMs : null;
  });
  expect(waits).toEqual([250, 500, 1000, 2000, 4000, maxBackoffMs, maxBackoffMs]);
  expect(decide("source_unreachable", { count: 2, windowSinceMs: 0 }, 0, 0)).toEqual({
    action: "restart",
    delayMs: 250,
    attempt: 2,
  });
});

test("at the source, retries end after the retry window, and the reason says how to continue", () => {
  const streak = { count: 40, windowSinceMs: 1_000 };
  expect(decide("source_unreachable", streak, 300_999).action).toBe("restart");
  const decision = decide("source_unreachable", streak, 301_000);
  expect(decision.action).toBe("fail");
  expect(decision.action === "fail" && decision.reason).toContain("retry_window_seconds");
});

test("at the sink, retries continue until the cause is gone", () => {
  for (const code of [
    "sink_unreachable",
    "sink_too_few_brokers",
    "sink_rejected_rows",
    "state_unavailable",
  ] as const) {
    expect(decide(code, addFailure({ count: 10_000, windowSinceMs: 0 }, { code }, 1e9), 2e9).action).toBe(
      "restart",
    );
  }
});

test("a streak counts failures from the first one", () => {
  const code = "source_unreachable";
  const first = addFailure(null, { code }, 100);
  expect(first).toEqual({ count: 1, windowSinceMs: 100 });
  expect(addFailure(first, { code }, 900)).toEqual({ count: 2, windowSinceMs: 100 });
});

test("what is retried without an end uses nothing up of the window", () => {
  const away = addFailure({ count: 7, windowSinceMs: 100 }, { code: "sink_unreachable" }, 900);
  expect(away).toEqual({ count: 8, windowSinceMs: null });
  const next = addFailure(away, { code: "source_connection_lost" }, 1e6);
  expect(next).toEqual({ count: 9, windowSinceMs: 1e6 });
  expect(decide("source_connection_lost", next, 1e6).action).toBe("restart");
});
