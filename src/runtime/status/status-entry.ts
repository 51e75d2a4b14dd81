// A connector's place on the status board.

import type { ConnectorStatus, SetAsideTable, Status } from "../../connector/status.ts";
import { RunMeasurement } from "../metrics/run-measurement.ts";
import { starting } from "./status-lines.ts";
import { StatusThrottle } from "./status-throttle.ts";

/** What the board has of a connector. */
export interface StatusEntry {
  runId: string;
  status: Status;
  readonly measurement: RunMeasurement;
  lastError: NonNullable<ConnectorStatus["last_error"]> | null;
  /** The retry that is shown, as JSON. While it continues through several phases it is recorded once. */
  retry: string | null;
  /** When the next attempt follows; null: not known. Past: it is under way. */
  nextAttemptAt: Date | null;
  setAside: readonly SetAsideTable[];
  /** When the next round begins; null: not known, or a round is under way. */
  nextSnapshotAt: Date | null;
  /** The last recorded status and its component, as JSON: only a different one is recorded. Null: there is none. */
  recorded: string | null;
  readonly throttle: StatusThrottle;
  /** Records a throttled status later, unless another status comes first. */
  deferred: ReturnType<typeof setTimeout> | undefined;
}

/** Of a run of which nothing is known yet. */
export function newEntry(runId: string, throttleMs: number): StatusEntry {
  return {
    runId,
    status: starting,
    measurement: new RunMeasurement(),
    lastError: null,
    retry: null,
    nextAttemptAt: null,
    setAside: [],
    nextSnapshotAt: null,
    recorded: null,
    throttle: new StatusThrottle(throttleMs),
    deferred: undefined,
  };
}

/** Its deferred status is not recorded. */
export function cancelDeferred(entry: StatusEntry): void {
  clearTimeout(entry.deferred);
  entry.deferred = undefined;
}
