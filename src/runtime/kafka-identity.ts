// Two Kafka connectors of one name would share a checkpoint, and those of one transactional id would fence each other. The first to be made has
// both.

import { checkpointKey, type KafkaSinkConfig, transactionalId } from "../connector/config/kafka-config.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import { MillraceError } from "../errors/millrace-error.ts";

type Identified = Pick<ConnectorConfig, "id" | "sink">;

/** Throws `conflict`. Without a chosen name or transactional id the connector's id stands for them: then nothing is read. */
export async function refuseSharedIdentity(
  config: Identified,
  others: () => Promise<readonly { readonly config: Identified }[]>,
): Promise<void> {
  if (!("kafka" in config.sink) || !isChosen(config.sink.kafka)) return;
  const other = (await others()).find((stored) => shareIdentity(stored.config, config))?.config;
  if (!other) return;
  throw new MillraceError(
    "conflict",
    `Connector ${other.id} writes to the same brokers under this sink.kafka.name or transactional_id: each of the two would end the other's run, and ` +
      "go on at its checkpoint. Give the new one others, or none: its id stands for both.",
  );
}

function isChosen({ name, connection }: KafkaSinkConfig): boolean {
  return name !== null || connection.config.transactions.transactional_id !== null;
}

/** Pure. */
export function shareIdentity(one: Identified, other: Identified): boolean {
  if (one.id === other.id || !("kafka" in one.sink) || !("kafka" in other.sink)) return false;
  const [first, second] = [one.sink.kafka, other.sink.kafka];
  const brokers = new Set(first.connection.brokers);
  if (!second.connection.brokers.some((broker) => brokers.has(broker))) return false;
  const isOneKey = checkpointKey(one.id, first) === checkpointKey(other.id, second);
  return isOneKey || transactionalId(one.id, first) === transactionalId(other.id, second);
}
