// Settings of the connector that do not go together with those of brokers and topics. Pure.

import { type Finding, failed, passed, skipped, warned } from "../../../connection/validation-log.ts";
import { checkpointTopic } from "../checkpoint/checkpoint-topic.ts";
import { alterTopic, type Settings } from "../client/topics.ts";
import type { ProducingSettings } from "../kafka-settings.ts";
import type { ClusterFacts } from "./cluster-facts.ts";
import { named } from "./permission-findings.ts";

const unreadable = skipped("The user may not read the brokers' settings (DescribeConfigs on the cluster).");

type Planned = Pick<
  ProducingSettings,
  "topics" | "maxMessageBytes" | "log" | "sender" | "transactionTimeoutMs"
>;

type Find = (planned: Planned, facts: ClusterFacts) => Finding;
type SettingCheck = readonly [name: string, description: string, find: Find];

/** In the order in which they are told. */
export const settingChecks: readonly SettingCheck[] = [
  ["Replication", "The cluster has as many brokers as topics are to have replicas.", replication],
  ["In-sync replicas", "min.insync.replicas is not above the number of replicas.", inSyncReplicas],
  ["Message size", "Brokers and topics take messages of message_max_bytes.", messageSize],
  ["Batch size", "Brokers and topics take batches of batch_size.", batchSize],
];

/** Those that say nothing where transactions are off. */
export const transactionChecks: readonly SettingCheck[] = [
  [
    "Transaction timeout",
    "The brokers allow transactions.timeout_ms, and miss a dead broker within that time.",
    transactionTimeout,
  ],
  [
    "Checkpoint topic",
    `Nothing but newer records removes a record from topic ${checkpointTopic}.`,
    checkpointPolicy,
  ],
];

function replication({ topics: plan }: Planned, { brokers }: ClusterFacts): Finding {
  const { replicationFactor: factor } = plan;
  const count = `${brokers.length} broker${brokers.length === 1 ? "" : "s"}`;
  if (factor > brokers.length)
    return failed(
      `topic_options.replication_factor is ${factor}, and the cluster has ${count}: set it to ${brokers.length} or less.`,
    );
  if (factor > 1 || brokers.length === 1) return passed;
  return warned(
    `topic_options.replication_factor is 1: of a topic that is made, messages are on one of ${count} only. Set it to ${Math.min(3, brokers.length)}.`,
  );
}

/** With acks All a broker takes nothing where fewer replicas can be in sync. */
function inSyncReplicas({ topics: plan, sender }: Planned, facts: ClusterFacts): Finding {
  if (sender.acks !== "All") return passed;
  const { topicSettings, topics, checkpoints } = facts;
  const few = [checkpoints, ...topics].filter(({ name, presence, replicas }) => {
    const needed = number(topicSettings.get(name), "min.insync.replicas");
    return presence === "there" && needed !== null && needed > replicas;
  });
  if (few.length > 0)
    return failed(
      `min.insync.replicas of ${named(few.map(({ name }) => name))} is above the number of replicas: no message is taken.`,
      few.map(({ name, replicas }) => alterTopic(name, `min.insync.replicas=${replicas}`)),
    );
  const { value: needed } = ofNewTopics(plan, facts, "min.insync.replicas", "min.insync.replicas");
  if (needed === null) return unreadable;
  if (needed <= plan.replicationFactor) return passed;
  return failed(
    `Topics are made with ${plan.replicationFactor} replica${plan.replicationFactor === 1 ? "" : "s"}, and min.insync.replicas is ${needed}: ` +
      `no message would be taken. Set topic_options.replication_factor to ${needed} or more, or min.insync.replicas in topic_options.config.`,
  );
}

function transactionTimeout(
  { transactionTimeoutMs: ms }: Planned,
  { brokerSettings }: ClusterFacts,
): Finding {
  const most = number(brokerSettings, "transaction.max.timeout.ms");
  if (most === null) return unreadable;
  if (ms > most)
    return failed(
      `transactions.timeout_ms is ${ms}, and the brokers allow ${most} (transaction.max.timeout.ms): set it to ${most} or less.`,
    );
  const missedMs = missedAfterMs(brokerSettings);
  if (missedMs === null || ms > missedMs) return passed;
  return warned(
    `transactions.timeout_ms is ${ms}, and the brokers take up to ${missedMs} ms to miss one of them that is dead ` +
      "(broker.session.timeout.ms, replica.lag.time.max.ms). A transaction that ends meanwhile may hold up the connector for " +
      `request.timeout.ms of the brokers, 30 s by default. Set transactions.timeout_ms above ${missedMs}.`,
  );
}

/**
 * How long replicas count as in sync when their broker is dead: until the controller misses it, or the leader, which looks twice in the
 * time of its setting. The coordinator waits for them to record the end of a transaction, for the transaction's timeout. After that it
 * tries again when it happens to wake up, after request.timeout.ms at the latest (TransactionMarkerChannelManager). Null: not known.
 */
function missedAfterMs(brokerSettings: Settings | null): number | null {
  const sessionMs = number(brokerSettings, "broker.session.timeout.ms");
  const lagMs = number(brokerSettings, "replica.lag.time.max.ms");
  if (sessionMs === null && lagMs === null) return null;
  const never = Number.POSITIVE_INFINITY;
  return Math.min(sessionMs ?? never, (lagMs ?? never) * 1.5);
}

function messageSize(planned: Planned, facts: ClusterFacts): Finding {
  return sizes(facts, planned, "message_max_bytes", planned.maxMessageBytes, (largest) => {
    return `a row whose message is larger stops the connector. Raise that of the topic, or set message_max_bytes to ${largest} or less.`;
  });
}

/** A batch that is too large is cut smaller, which takes another try. */
function batchSize(planned: Planned, facts: ClusterFacts): Finding {
  return sizes(facts, planned, "batch_size", planned.log.batchBytes, (largest) => {
    return `batches that are larger when compressed are refused, and sent again as smaller ones. Set batch_size to ${largest} or less.`;
  });
}

function sizes(
  facts: ClusterFacts,
  { topics: plan }: Planned,
  field: string,
  bytes: number,
  consequence: (largest: number) => string,
): Finding {
  const tooSmall = (where: string, largest: number, commands: readonly string[] = []) =>
    warned(`${field} is ${bytes}, and ${where} is ${largest}: ${consequence(largest)}`, commands);
  const small = facts.topics.flatMap(({ name }) => {
    const largest = number(facts.topicSettings.get(name), "max.message.bytes");
    return largest !== null && largest < bytes ? [{ name, largest }] : [];
  });
  if (small.length > 0) {
    const names = small.map(({ name }) => name);
    return tooSmall(
      `max.message.bytes of ${named(names)}`,
      Math.min(...small.map(({ largest }) => largest)),
      names.map((name) => alterTopic(name, `max.message.bytes=${bytes}`)),
    );
  }
  const { value, where } = ofNewTopics(plan, facts, "max.message.bytes", "message.max.bytes");
  if (value === null) return unreadable;
  return bytes <= value ? passed : tooSmall(where, value);
}

/** A setting of topics that are made, from topic_options or from the brokers. Null: not known. */
function ofNewTopics(
  { config }: Planned["topics"],
  { brokerSettings }: ClusterFacts,
  ofTopic: string,
  ofBroker: string,
): { readonly value: number | null; readonly where: string } {
  const given = config.find(({ key }) => key === ofTopic);
  if (given) return { value: Number(given.value), where: `${ofTopic} of topic_options.config` };
  return { value: number(brokerSettings, ofBroker), where: `${ofBroker} of the brokers` };
}

/** Retention by time would take the checkpoint away. */
function checkpointPolicy(_: Planned, { checkpoints, topicSettings }: ClusterFacts): Finding {
  if (checkpoints.presence === "missing") return { type: "passed", message: "It is made as it has to be." };
  const policy = topicSettings.get(checkpointTopic)?.get("cleanup.policy");
  if (policy === undefined)
    return skipped(`The user may not read the settings of topic ${checkpointTopic} (DescribeConfigs on it).`);
  if (policy === "compact") return passed;
  return failed(
    `cleanup.policy of topic ${checkpointTopic} is ${policy}: checkpoints would be lost. It has to be compact.`,
    [alterTopic(checkpointTopic, "cleanup.policy=compact")],
  );
}

/** Null: not known. */
function number(settings: Settings | null | undefined, key: string): number | null {
  const text = settings?.get(key) ?? "";
  return text === "" || Number.isNaN(Number(text)) ? null : Number(text);
}
