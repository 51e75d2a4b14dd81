// When a failed request is tried again, and when it is not. Pure: clock and randomness are arguments.

export interface RetryPolicy {
  /** Tries after the first; 0: unlimited. */
  readonly maxRetries: number;
  /** From the first failure; 0: unlimited. */
  readonly maxRetryDurationMs: number;
  readonly initialBackoffMs: number;
  readonly maxBackoffMs: number;
}

/**
 * Exponential backoff with jitter: d = min(max, initial × 2^retry), of which half is fixed and half random.
 * `retry` counts from 0; `random` is in [0, 1).
 */
export function backoffDelay(policy: RetryPolicy, retry: number, random: number): number {
  const full = Math.min(policy.maxBackoffMs, policy.initialBackoffMs * 2 ** Math.min(retry, 60));
  return full / 2 + random * (full / 2);
}

export interface FailedAttempt {
  /** Attempts that failed, at least 1. */
  readonly attempts: number;
  /** Since the first of them failed. */
  readonly elapsedMs: number;
  /** The receiver's `Retry-After`, a lower bound; 0 without one. */
  readonly retryAfterMs: number;
  readonly random: number;
}

export type RetryDecision =
  | { readonly kind: "wait"; readonly delayMs: number }
  | { readonly kind: "exhausted"; readonly limit: "max_retries" | "max_retry_duration_ms" };

/**
 * Whichever limit comes first ends the retries. A wait that would end after the duration does not begin; but where it is the receiver that
 * asks for so long, the last attempt is made as the duration ends.
 */
export function decideRetry(policy: RetryPolicy, failed: FailedAttempt): RetryDecision {
  if (policy.maxRetries > 0 && failed.attempts > policy.maxRetries) {
    return { kind: "exhausted", limit: "max_retries" };
  }
  const { maxRetryDurationMs: durationMs } = policy;
  const leftMs = durationMs > 0 ? durationMs - failed.elapsedMs : Number.POSITIVE_INFINITY;
  const backoffMs = backoffDelay(policy, failed.attempts - 1, failed.random);
  if (backoffMs > leftMs) return { kind: "exhausted", limit: "max_retry_duration_ms" };
  const delayMs = Math.max(backoffMs, Math.min(failed.retryAfterMs, leftMs));
  return { kind: "wait", delayMs };
}
