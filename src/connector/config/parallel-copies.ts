// How many tables are copied at once: the connector's setting, within its limit of connections. And how many parts of one are compared. Pure.

import type { ConnectorConfig } from "../connector.ts";

const defaultParallelCopies = 4;
/** What a side without a bound takes where the other has one: enough for two tasks at once. More would be more than anybody asked of it. */
const mostWithoutBound = 7;
/**
 * Connections besides those of copies. At the source: the stream, the snapshot and at times the next one, and two for
 * tables and log. At a Postgres sink: the one that applies changes, and the one that checks it.
 */
const otherConnections = { source: 5, sink: 2 } as const;

const defaultVerifyLanes = 2;

type PostgresSides = {
  readonly source: Pick<ConnectorConfig["source"], "postgres">;
  readonly sink: Pick<ConnectorConfig["sink"], "postgres">;
};

/** Whether either side limits its connections. */
export function areConnectionsBounded({ source, sink }: PostgresSides): boolean {
  return [source.postgres, sink.postgres].some((side) => (side?.connection.max_pool_size ?? 0) > 0);
}

/** `max_pool_size` limits the connections of copies and all others together; at least one table is copied. */
export function parallelCopies(sides: PostgresSides): number {
  const { source, sink } = sides;
  if (source.postgres?.parallel_snapshots_enabled === false) return 1;
  if (!areConnectionsBounded(sides)) return defaultParallelCopies;
  const available = (size: number | undefined, others: number) => (size ? size - others : mostWithoutBound);
  const copies = Math.min(
    available(source.postgres?.connection.max_pool_size, otherConnections.source),
    available(sink.postgres?.connection.max_pool_size, otherConnections.sink),
  );
  return Math.max(1, copies);
}

/** How many parts of a table each side reads at once for a comparison. */
export function verifyLanes({ limits }: Pick<ConnectorConfig, "limits">): number {
  return limits.verify.lanes || defaultVerifyLanes;
}
