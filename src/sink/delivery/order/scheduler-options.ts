// How much a connector's scheduler may have on its way, and how it tries again: the transport's settings, and our own bounds.

import type { RequestSettings } from "../delivery-settings.ts";
import type { SchedulerOptions } from "./scheduler.ts";

const maxUndeliveredBytes = 16 * 1024 * 1024;
const maxUndeliveredRequests = 2048;
const maxRetryingPerTable = 64;

export function schedulerOptions(
  { retry, retriesExhausted, maxInFlight, maxBufferedRows }: RequestSettings,
  { monotonic, sleep, random }: Pick<SchedulerOptions, "monotonic" | "sleep" | "random">,
): SchedulerOptions {
  return {
    ...{ retry, retriesExhausted, maxInFlight },
    maxBytes: maxUndeliveredBytes,
    maxRequests: maxUndeliveredRequests,
    maxRows: maxBufferedRows,
    maxRetryingPerTable,
    ...{ monotonic, sleep, random },
  };
}
