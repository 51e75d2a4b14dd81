// A status as a line of the log, and the one that a run begins with.

import type { HistoryComponent, Status } from "../../connector/status.ts";
import type { Log } from "../../log.ts";

/** What a run shows until something is reported of it. */
export const starting: Status = { state: { start: {} }, status: { start: {} } };

/** The names of a status' phase and health. */
export function phaseOf({ state, status }: Status): { readonly state: string; readonly health: string } {
  const [phase = ""] = Object.keys(state);
  const [health = ""] = Object.keys(status);
  return { state: phase, health };
}

export function logStatus(
  log: Log,
  run: { readonly connector: string; readonly run: string },
  component: HistoryComponent,
  status: Status,
): void {
  const { state, status: health } = status;
  const name = state.snapshot?.name ?? state.realtime?.name ?? state.initialize?.sub_state;
  const named = name === undefined ? {} : { name };
  const facts = { ...run, component, ...phaseOf(status), ...named };
  const fields = { ...facts, ...health.retry, ...health.warning, ...health.skipped, ...health.failed };
  if (health.failed) log.error(fields, "connector failed");
  else if (health.retry || health.warning) log.warn(fields, "connector needs attention");
  else log.info(fields, "connector status");
}
