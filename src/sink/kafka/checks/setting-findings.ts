// Settings of the connector that do not go together with those of brokers and topics. Pure.

import type { Finding } from "../../../connection/validation-log.ts";
import { checkpointTopic } from "../checkpoint/checkpoint-topic.ts";
import type { ProducingSettings } from "../kafka-settings.ts";
import type { ClusterFacts, Settings } from "./cluster-facts.ts";
import { named } from "./permission-findings.ts";

const passed: Finding = { type: "passed" };
const unreadable: Finding = {
  type: "skipped",
  reason: "The user may not read the brokers' settings (DescribeConfigs on the cluster).",
};

type Planned = Pick<
  ProducingSettings,
  "topics" | "maxMessageBytes" | "log" | "sender" | "transactionTimeoutMs"
>;

interface SettingCheck {
  readonly name: string;
  readonly description: string;
  /** It says nothing where transactions are off. */
  readonly inTransactions: boolean;
  readonly find: (planned: Planned, facts: ClusterFacts) => Finding;
}

const check = (name: string, description: string, find: SettingCheck["find"]): SettingCheck => {
  return { name, description, inTransactions: false, find };
};

/** In the order in which they are told. */
export const settingChecks: readonly SettingCheck[] = [
  check("Replication", "The cluster has as many brokers as topics are to have replicas.", replication),
  check("In-sync replicas", "min.insync.replicas is not above the number of replicas.", inSyncReplicas),
  check("Message size", "Brokers and topics take messages of message_max_bytes.", messageSize),
  check("Batch size", "Brokers and topics take batches of batch_size.", batchSize),
  {
    ...check("Transaction timeout", "The brokers allow transactions.timeout_ms.", transactionTimeout),
    inTransactions: true,
  },
  {
    ...check(
      "Checkpoint topic",
      `Nothing but newer records removes a record from topic ${checkpointTopic}.`,
      checkpointPolicy,
    ),
    inTransactions: true,
  },
];

function replication({ topics: plan }: Planned, { brokers }: ClusterFacts): Finding {
  const { replicationFactor: factor } = plan;
  const count = `${brokers.length} broker${brokers.length === 1 ? "" : "s"}`;
  if (factor > brokers.length) {
    const reason = `topic_options.replication_factor is ${factor}, and the cluster has ${count}: set it to ${brokers.length} or less.`;
    return { type: "failed", reason };
  }
  if (factor > 1 || brokers.length === 1) return passed;
  const message = `topic_options.replication_factor is 1: of a topic that is made, messages are on one of ${count} only. Set it to ${Math.min(3, brokers.length)}.`;
  return { type: "warned", message };
}

/** With acks All a broker takes nothing where fewer replicas can be in sync. */
function inSyncReplicas({ topics: plan, sender }: Planned, facts: ClusterFacts): Finding {
  if (sender.acks !== "All") return passed;
  const { brokerSettings, topicSettings, topics, checkpoints } = facts;
  const few = [checkpoints, ...topics].filter(({ name, presence, replicas }) => {
    const needed = number(topicSettings.get(name), "min.insync.replicas");
    return presence === "there" && needed !== null && needed > replicas;
  });
  if (few.length > 0) {
    const names = few.map(({ name }) => name);
    return {
      ...{
        type: "failed",
        reason: `min.insync.replicas of ${named(names)} is above the number of replicas: no message is taken.`,
      },
      commands: names.map((name) =>
        alterTopic(name, `min.insync.replicas=${few.find((each) => each.name === name)!.replicas}`),
      ),
    };
  }
  const given = plan.config.find(({ key }) => key === "min.insync.replicas")?.value;
  const needed = given === undefined ? number(brokerSettings, "min.insync.replicas") : Number(given);
  if (needed === null) return unreadable;
  if (needed <= plan.replicationFactor) return passed;
  const reason =
    `Topics are made with ${plan.replicationFactor} replica${plan.replicationFactor === 1 ? "" : "s"}, and min.insync.replicas is ${needed}: ` +
    `no message would be taken. Set topic_options.replication_factor to ${needed} or more, or min.insync.replicas in topic_options.config.`;
  return { type: "failed", reason };
}

function transactionTimeout(
  { transactionTimeoutMs: ms }: Planned,
  { brokerSettings }: ClusterFacts,
): Finding {
  const most = number(brokerSettings, "transaction.max.timeout.ms");
  if (most === null) return unreadable;
  if (ms <= most) return passed;
  const reason = `transactions.timeout_ms is ${ms}, and the brokers allow ${most} (transaction.max.timeout.ms): set it to ${most} or less.`;
  return { type: "failed", reason };
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
  { brokerSettings, topicSettings, topics }: ClusterFacts,
  { topics: plan }: Planned,
  field: string,
  bytes: number,
  consequence: (largest: number) => string,
): Finding {
  const small = topics.flatMap(({ name }) => {
    const largest = number(topicSettings.get(name), "max.message.bytes");
    return largest !== null && largest < bytes ? [{ name, largest }] : [];
  });
  if (small.length > 0) {
    const names = small.map(({ name }) => name);
    const largest = Math.min(...small.map((each) => each.largest));
    return {
      ...{
        type: "warned",
        message: `${field} is ${bytes}, and max.message.bytes of ${named(names)} is ${largest}: ${consequence(largest)}`,
      },
      commands: names.map((name) => alterTopic(name, `max.message.bytes=${bytes}`)),
    };
  }
  const given = plan.config.find(({ key }) => key === "max.message.bytes")?.value;
  const largest = given === undefined ? number(brokerSettings, "message.max.bytes") : Number(given);
  if (largest === null) return unreadable;
  if (bytes <= largest) return passed;
  const where =
    given === undefined ? "message.max.bytes of the brokers" : "max.message.bytes of topic_options.config";
  return {
    type: "warned",
    message: `${field} is ${bytes}, and ${where} is ${largest}: ${consequence(largest)}`,
  };
}

/** Retention by time would take the checkpoint away. */
function checkpointPolicy(_: Planned, { checkpoints, topicSettings }: ClusterFacts): Finding {
  if (checkpoints.presence === "missing") return { type: "passed", message: "It is made as it has to be." };
  const policy = topicSettings.get(checkpointTopic)?.get("cleanup.policy");
  if (policy === undefined)
    return {
      type: "skipped",
      reason: `The user may not read the settings of topic ${checkpointTopic} (DescribeConfigs on it).`,
    };
  if (policy === "compact") return passed;
  return {
    type: "failed",
    reason: `cleanup.policy of topic ${checkpointTopic} is ${policy}: checkpoints would be lost. It has to be compact.`,
    commands: [alterTopic(checkpointTopic, "cleanup.policy=compact")],
  };
}

function alterTopic(topic: string, setting: string): string {
  return `kafka-configs.sh --bootstrap-server … --alter --entity-type topics --entity-name ${topic} --add-config ${setting}`;
}

/** Null: not known. */
function number(settings: Settings | null | undefined, key: string): number | null {
  const text = settings?.get(key);
  return text === undefined || text === "" || Number.isNaN(Number(text)) ? null : Number(text);
}
