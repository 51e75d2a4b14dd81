// Whether a changed connector can go on from where it is, or has to begin anew. Pure.

import type { PostgresConnection } from "../../connector/config/connection.ts";
import type { ConnectorConfig } from "../../connector/connector.ts";

/**
 * A checkpoint means something only between the same source and the same sink: with another database at either end,
 * or another kind, the connector begins anew. A webhook's address is no such end: the receiver behind another one
 * goes on with the next change.
 */
export function needsFreshStart(before: ConnectorConfig, after: ConnectorConfig): boolean {
  return !Bun.deepEquals(ends(before), ends(after));
}

function ends({ source, sink }: ConnectorConfig): unknown {
  return {
    source: address(source.postgres?.connection),
    replication: Object.keys(source.postgres?.replication_type ?? {}),
    sinkKind: Object.keys(sink),
    sink: address(sink.postgres?.connection),
  };
}

function address(connection: PostgresConnection | undefined): unknown {
  return connection && [connection.host.toLowerCase(), connection.port, connection.database];
}
