// A connector as the console knows it: what the API says of it, and whether it counts as behind. Pure.

import type { GivenConnector } from "../../src/connector/connector.ts";
import type { ConnectorStatus } from "../../src/connector/status.ts";

export interface KnownConnector extends GivenConnector {
  readonly isBehind: boolean;
}

/** From here on a connector that streams counts as behind. */
export const behindSeconds = 60;
/** Below this it no longer does. A lag that swings around one limit would move the connector up and down the list. */
const caughtUpSeconds = 30;

/** @param before what was known of it until now */
export function knownConnector(entry: GivenConnector, before: KnownConnector | undefined): KnownConnector {
  return { ...entry, isBehind: isBehind(entry.status, before?.isBehind ?? false) };
}

function isBehind({ state, progress }: ConnectorStatus, wasBehind: boolean): boolean {
  if (!state.realtime) return false;
  const lag = progress?.lag_seconds ?? null;
  // A status without figures says nothing of it.
  if (lag === null) return wasBehind;
  return lag >= (wasBehind ? caughtUpSeconds : behindSeconds);
}
