// How much a connector's scheduler may have on its way, and how it tries again: the connector's settings, and our own bounds.

import type { ConnectorConfig } from "../../../connector/connector.ts";
import { configuredSink } from "../configured-sink.ts";
import type { SchedulerOptions } from "./scheduler.ts";

const defaultInFlight = 32;
const maxUndeliveredBytes = 16 * 1024 * 1024;
const maxUndeliveredRequests = 2048;
const maxRetryingPerTable = 64;

export function schedulerOptions(
  connector: ConnectorConfig,
  { monotonic, sleep, random }: Pick<SchedulerOptions, "monotonic" | "sleep" | "random">,
): SchedulerOptions {
  const { retry, max_in_flight: maxInFlight = defaultInFlight } = configuredSink(connector);
  return {
    retry: {
      maxRetries: retry.max_retries,
      maxRetryDurationMs: retry.max_retry_duration_ms,
      initialBackoffMs: retry.initial_backoff_ms,
      maxBackoffMs: retry.max_backoff_ms,
    },
    maxInFlight,
    maxBytes: maxUndeliveredBytes,
    maxRequests: maxUndeliveredRequests,
    maxRows: connector.limits.cdc.max_buffer_rows || Number.POSITIVE_INFINITY,
    maxRetryingPerTable,
    monotonic,
    sleep,
    random,
  };
}
