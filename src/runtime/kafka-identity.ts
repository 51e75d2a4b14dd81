// Two Kafka connectors of one name would share a checkpoint, and those of one transactional id would fence each other. The first one to take
// them has both.

import { checkpointKey, transactionalId } from "../connector/config/kafka-config.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import { MillraceError } from "../errors/millrace-error.ts";

type Identified = Pick<ConnectorConfig, "id" | "sink">;

/** A connector that is there. `cleanup`: what it was before, whose record is still to be removed; null: nothing is. */
interface Holder {
  readonly config: Identified;
  readonly cleanup: Identified | null;
}

/** Throws `conflict`. `before`: what the connector was; one that stays at the same place takes nothing, and nothing is read. */
export async function refuseSharedIdentity(
  config: Identified,
  before: Identified | null,
  holders: () => Promise<readonly Holder[]>,
): Promise<void> {
  const identity = identityOf(config);
  if (identity === null || Bun.deepEquals(identity, before && identityOf(before))) return;
  const held = (await holders()).flatMap(({ config, cleanup }) => (cleanup ? [config, cleanup] : [config]));
  const other = held.find((each) => shareIdentity(each, config));
  if (!other) return;
  throw new MillraceError(
    "conflict",
    `Connector ${other.id} has this sink.kafka.name, id or transactional_id at the same brokers: each of the two would end the other's run, and ` +
      `go on at its checkpoint. Give ${config.id} another sink.kafka.name and transactional_id.`,
  );
}

/** Pure. */
function shareIdentity(one: Identified, other: Identified): boolean {
  const [first, second] = [identityOf(one), identityOf(other)];
  if (one.id === other.id || first === null || second === null) return false;
  if (!first.brokers.some((broker) => second.brokers.includes(broker))) return false;
  return first.checkpoint === second.checkpoint || first.transactions === second.transactions;
}

/** Null: it writes to no Kafka. */
function identityOf({ id, sink: { kafka } }: Identified) {
  if (!kafka) return null;
  return {
    brokers: kafka.connection.brokers.map((broker) => broker.toLowerCase()).sort(),
    checkpoint: checkpointKey(id, kafka),
    transactions: transactionalId(id, kafka),
  };
}
