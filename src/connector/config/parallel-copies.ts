// How many tables are copied side by side: what the connector asks for, within the connections that it allows. Pure.

import type { ConnectorConfig } from "../connector.ts";

const defaultParallelCopies = 4;
/**
 * At the source: the stream, the snapshot and at times the one that follows it, and two that look after tables and log. At a
 * Postgres sink: what applies changes, and what looks after it.
 */
const heldBeside = { source: 5, sink: 2 } as const;

type PostgresSides = {
  readonly source: Pick<ConnectorConfig["source"], "postgres">;
  readonly sink: Pick<ConnectorConfig["sink"], "postgres">;
};

/** Whether either side is to have no more connections than so many. */
export function areConnectionsBounded({ source, sink }: PostgresSides): boolean {
  return [source.postgres, sink.postgres].some((side) => (side?.connection.max_pool_size ?? 0) > 0);
}

/** `max_pool_size` bounds a copy's connections and those that are held beside them; at least one table is copied. */
export function parallelCopies({ source, sink }: PostgresSides): number {
  if (source.postgres?.parallel_snapshots_enabled === false) return 1;
  const room = (size: number | undefined, held: number) =>
    size ? size - held : Math.max(defaultParallelCopies, 1);
  const most = Math.min(
    room(source.postgres?.connection.max_pool_size, heldBeside.source),
    room(sink.postgres?.connection.max_pool_size, heldBeside.sink),
  );
  return Math.max(1, most);
}
