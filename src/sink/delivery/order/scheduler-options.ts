// How much a connector's scheduler may have on its way, and how it tries again: the transport's settings, and our own bounds.

import type { ErrorCode } from "../../../errors/error-codes.ts";
import type { MillraceError } from "../../../errors/millrace-error.ts";
import type { RequestSettings } from "../delivery-settings.ts";
import type { AttemptWatch } from "./attempt.ts";
import type { AttemptPlaces } from "./attempt-places.ts";
import type { RetryPolicy } from "./backoff.ts";
import type { ShareBounds } from "./request-lane.ts";
import type { UndeliverableRequests } from "./request-work.ts";

export interface SchedulerOptions extends ShareBounds {
  readonly retry: RetryPolicy;
  /** Of the failure when a request's retries end. */
  readonly retriesExhausted: ErrorCode;
  /** Attempts under way at once. */
  readonly maxInFlight: number;
  /** Places for as many attempts, where others make some too. */
  readonly places?: AttemptPlaces | undefined;
  /** Requests of one table that wait for another attempt, before no new one of it is begun. */
  readonly maxRetryingPerTable: number;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly random: () => number;
  /** What becomes of requests that cannot be delivered as they are; absent: the run fails. */
  readonly undeliverable?: UndeliverableRequests | undefined;
  readonly watch?: AttemptWatch | undefined;
}

export interface SchedulerEvents {
  /** The largest number of failed attempts of a request now, and when its next follows; null: none is being retried any more. */
  retrying(attempt: number | null, reason: string, inMs?: number): void;
  /** Called once: a request can never be delivered, or its retries ended. Nothing is sent afterwards. */
  failed(error: MillraceError): void;
}

const maxUndeliveredBytes = 16 * 1024 * 1024;
const maxUndeliveredRequests = 2048;
const maxRetryingPerTable = 64;

export function schedulerOptions(
  { retry, retriesExhausted, maxInFlight, maxBufferedRows }: RequestSettings,
  { monotonic, sleep, random }: Pick<SchedulerOptions, "monotonic" | "sleep" | "random">,
  undeliverable?: UndeliverableRequests,
  watch?: AttemptWatch,
  places?: AttemptPlaces,
): SchedulerOptions {
  return {
    retry,
    retriesExhausted,
    maxInFlight,
    maxBytes: maxUndeliveredBytes,
    maxRequests: maxUndeliveredRequests,
    maxRows: maxBufferedRows,
    maxRetryingPerTable,
    monotonic,
    sleep,
    random,
    undeliverable,
    watch,
    places,
  };
}
