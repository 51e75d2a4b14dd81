// Decides whether a changed connector can continue from its checkpoint, or has to begin again. Pure.

import type { PostgresConnection } from "../../connector/config/connection.ts";
import { checkpointKey, transactionalId } from "../../connector/config/kafka-config.ts";
import type { ConnectorConfig } from "../../connector/connector.ts";

/**
 * A checkpoint is valid only between the same source and the same sink. With another database at either end, or another
 * kind, the connector begins again, and so it does with other brokers, or under another name or transactional id at them: what the former
 * producer has under way is decided by its id alone. A webhook's URL does not count: the receiver at another URL continues with the next change.
 */
export function needsFreshStart(before: ConnectorConfig, after: ConnectorConfig): boolean {
  return !Bun.deepEquals(endpoints(before), endpoints(after));
}

/** Whether both read the same database, where slot and publications are. */
export function haveSameSource(one: ConnectorConfig, other: ConnectorConfig): boolean {
  return Bun.deepEquals(address(one.source.postgres?.connection), address(other.source.postgres?.connection));
}

/** Whether the connector's record stays at brokers that it has left, or under a name that it no longer has. */
export function leavesCheckpoint(before: ConnectorConfig, after: ConnectorConfig): boolean {
  return before.sink.kafka !== undefined && !Bun.deepEquals(checkpointPlace(before), checkpointPlace(after));
}

function checkpointPlace({ id, sink: { kafka } }: ConnectorConfig): unknown {
  return {
    brokers: kafka?.connection.brokers.map((broker) => broker.toLowerCase()).sort(),
    name: kafka && checkpointKey(id, kafka),
    // With transactions the checkpoint is in Kafka, without them in the state.
    producer: kafka?.connection.config.transactions.enabled ? transactionalId(id, kafka) : null,
  };
}

function endpoints(connector: ConnectorConfig): unknown {
  const { source, sink } = connector;
  return {
    source: address(source.postgres?.connection),
    replication: Object.keys(source.postgres?.replication_type ?? {}),
    sinkKind: Object.keys(sink),
    sink: address(sink.postgres?.connection),
    checkpoint: checkpointPlace(connector),
  };
}

function address(connection: PostgresConnection | undefined): unknown {
  return connection && [connection.host.toLowerCase(), connection.port, connection.database];
}
