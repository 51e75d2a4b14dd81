// The connectors as the console knows them, and what events change about them. Pure.

import type { GivenConnector } from "../../src/connector/connector.ts";
import type { ConnectorStatus } from "../../src/connector/status.ts";

export type Connectors = ReadonlyMap<string, GivenConnector>;

export function connectorsOf(list: readonly GivenConnector[]): Connectors {
  return new Map(list.map((entry) => [entry.connector.id, entry]));
}

/** A status of a run that ended before the present one says nothing any more: run ids rise with time. */
export function withStatus(
  connectors: Connectors,
  id: string,
  runId: string,
  status: ConnectorStatus,
): Connectors {
  const known = connectors.get(id);
  if (!known || runId < known.run_id) return connectors;
  return new Map(connectors).set(id, { ...known, run_id: runId, status });
}

export function withConnector(connectors: Connectors, entry: GivenConnector): Connectors {
  return new Map(connectors).set(entry.connector.id, entry);
}

export function withoutConnector(connectors: Connectors, id: string): Connectors {
  if (!connectors.has(id)) return connectors;
  const rest = new Map(connectors);
  rest.delete(id);
  return rest;
}

export function isCopying(connectors: Connectors): boolean {
  for (const { status } of connectors.values()) if (status.state.snapshot) return true;
  return false;
}
