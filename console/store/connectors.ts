// The connectors as the console knows them, and what events change about them. Changes go into a draft: a thousand of them copy nothing.

import type { GivenConnector } from "../../src/connector/connector.ts";
import type { ConnectorStatus } from "../../src/connector/status.ts";

export type Connectors = ReadonlyMap<string, GivenConnector>;
export type ConnectorDraft = Map<string, GivenConnector>;

export function connectorsOf(list: readonly GivenConnector[]): ConnectorDraft {
  return new Map(list.map((entry) => [entry.connector.id, entry]));
}

/** A status of a run that ended before the present one says nothing any more: run ids rise with time. */
export function putStatus(draft: ConnectorDraft, id: string, runId: string, status: ConnectorStatus): void {
  const known = draft.get(id);
  if (known && runId >= known.run_id) draft.set(id, { ...known, run_id: runId, status });
}

export function putConnector(draft: ConnectorDraft, entry: GivenConnector): void {
  draft.set(entry.connector.id, entry);
}

export function isCopying(connectors: Connectors): boolean {
  for (const { status } of connectors.values()) if (status.state.snapshot) return true;
  return false;
}
