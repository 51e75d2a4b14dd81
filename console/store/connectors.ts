// The connectors as the console knows them, and what events change about them. Changes go into a draft: a thousand of them copy nothing.

import type { GivenConnector } from "../../src/connector/connector.ts";
import type { ConnectorStatus } from "../../src/connector/status.ts";
import { type KnownConnector, knownConnector } from "../connector/known-connector.ts";

export type Connectors = ReadonlyMap<string, KnownConnector>;
export type ConnectorDraft = Map<string, KnownConnector>;

/** @param before what was known until now */
export function connectorsOf(list: readonly GivenConnector[], before: Connectors): ConnectorDraft {
  return new Map(
    list.map((entry) => [entry.connector.id, knownConnector(entry, before.get(entry.connector.id))]),
  );
}

/** A status of a run that ended before the present one says nothing any more: run ids rise with time. */
export function putStatus(draft: ConnectorDraft, id: string, runId: string, status: ConnectorStatus): void {
  const known = draft.get(id);
  if (known && runId >= known.run_id)
    draft.set(id, knownConnector({ ...known, run_id: runId, status }, known));
}

export function putConnector(draft: ConnectorDraft, entry: GivenConnector): void {
  draft.set(entry.connector.id, knownConnector(entry, draft.get(entry.connector.id)));
}

export function isCopying(connectors: Connectors): boolean {
  for (const { status } of connectors.values()) if (status.state.snapshot) return true;
  return false;
}
