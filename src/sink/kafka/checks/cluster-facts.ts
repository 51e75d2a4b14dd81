// What the brokers tell of themselves, of topics and of what the user may do. Nothing is changed: what might change something is asked so
// that brokers refuse it after they have looked at the permission.

import {
  addPartitionsToTxnV3,
  apiVersionsV3,
  type Connection,
  createTopicsV6,
  metadataV9,
} from "@platformatic/kafka";
import { checkpointTopic } from "../checkpoint/checkpoint-topic.ts";
import type { Address } from "../client/broker-address.ts";
import type { Cluster } from "../client/cluster.ts";
import { brokerErrors, withRefusals } from "../client/kafka-error.ts";
import { newTopic, readSettings, type Settings, type TopicPlan } from "../client/topics.ts";
import type { BrokerFeatures } from "./broker-version.ts";

/** Of one topic. `mayRead`, `mayWrite`: null: the brokers do not tell. */
export interface TopicFacts {
  readonly name: string;
  /** "hidden": the user may not see whether it is there. */
  readonly presence: "there" | "missing" | "hidden";
  readonly replicas: number;
  readonly mayRead: boolean | null;
  readonly mayWrite: boolean | null;
}

export interface ClusterFacts {
  readonly features: BrokerFeatures;
  readonly brokers: readonly Address[];
  readonly checkpoints: TopicFacts;
  /** Of the tables, those that are there and seen; a part of them where there are many. */
  readonly topics: readonly TopicFacts[];
  /** Null: the user may not read them. */
  readonly brokerSettings: Settings | null;
  /** By topic, of those whose settings may be read. */
  readonly topicSettings: ReadonlyMap<string, Settings>;
}

/** Kafka's names of the errors that a question was answered with; none: it was done, or would have been. */
export type Refusals = readonly { readonly id: string; readonly message: string }[];

const mostTopics = 200;
const findBrokerWithinMs = 3_000;
const lookAgainMs = 200;
/** https://kafka.apache.org/protocol: org.apache.kafka.common.acl.AclOperation */
const operation = { read: 3, write: 4 } as const;
const unknownOperations = -(2 ** 31);
const missingTopic = 3;

const brokerKeys = [
  ...["message.max.bytes", "min.insync.replicas", "transaction.max.timeout.ms"],
  ...["broker.session.timeout.ms", "replica.lag.time.max.ms"],
];
const topicKeys = ["max.message.bytes", "min.insync.replicas", "cleanup.policy"];

/** `isOfTables`: whether a topic's name may be one of a table. Throws what the client throws. */
export async function readCluster(
  cluster: Cluster,
  isOfTables: (topic: string) => boolean,
): Promise<ClusterFacts> {
  await cluster.topics([], true);
  return await cluster.ask(async (connection) => {
    const versions = await apiVersionsV3.api.async(connection, "millrace", "1");
    const { brokers, topics } = await describeTopics(connection, [checkpointTopic]);
    const all = await describeTopics(connection, null);
    const seen = all.topics
      .map(({ name }) => name)
      .filter(isOfTables)
      .slice(0, mostTopics);
    const { nodeId } = brokers[0]!;
    const [known, brokerSettings, topicSettings] = await Promise.all([
      seen.length > 0 ? describeTopics(connection, seen) : { topics: [] },
      readSettings(await cluster.node(nodeId), "broker", [String(nodeId)], brokerKeys),
      readSettings(connection, "topic", [checkpointTopic, ...seen], topicKeys),
    ]);
    const metadata = versions.finalizedFeatures?.find(({ name }) => name === "metadata.version");
    return {
      features: {
        metadataVersion: metadata?.maxVersionLevel ?? null,
        newest: new Map(versions.apiKeys.map(({ apiKey, maxVersion }) => [apiKey, maxVersion])),
      },
      brokers: brokers.map(({ host, port }) => ({ host, port })),
      checkpoints: topics[0] ?? {
        name: checkpointTopic,
        presence: "missing",
        replicas: 0,
        mayRead: null,
        mayWrite: null,
      },
      topics: known.topics,
      brokerSettings: brokerSettings.get(String(nodeId)) ?? null,
      topicSettings,
    };
  });
}

/** Whether the topic could be made by this plan. The brokers only look. */
export async function tryCreate(cluster: Cluster, name: string, plan: TopicPlan): Promise<Refusals> {
  const found = await refusals(() =>
    cluster.ask((connection) =>
      createTopicsV6.api.async(connection, [newTopic(name, plan)], plan.operationTimeoutMs, true),
    ),
  );
  return found.filter(({ id }) => id !== "TOPIC_ALREADY_EXISTS");
}

/** A producer that does not exist: brokers look at the permission, and then do not know it. */
const nobody = { producerId: 0x7fff_ffff_ffff_fff0n, producerEpoch: 0, verifyOnly: false };

/**
 * Whether the user may use the transactional id. A producer of that id that runs is not disturbed. The coordinator may have to be found
 * first: then it is asked for some time.
 */
export async function tryTransactionalId(
  cluster: Cluster,
  transactionalId: string,
  sleep: (ms: number) => Promise<void>,
): Promise<Refusals> {
  const untilMs = performance.now() + findBrokerWithinMs;
  for (;;) {
    const lost = await refusals(() => cluster.coordinator(transactionalId));
    if (lost.length === 0) break;
    const isPassing = lost.every(({ id }) => id.startsWith("COORDINATOR_"));
    if (!isPassing || performance.now() >= untilMs) return lost;
    await sleep(lookAgainMs);
  }
  const coordinator = await cluster.coordinator(transactionalId);
  const topics = [{ name: checkpointTopic, partitions: [0] }];
  const found = await refusals(() =>
    addPartitionsToTxnV3.api.async(coordinator, [{ transactionalId, ...nobody, topics }]),
  );
  return found.filter(({ id }) => id === "TRANSACTIONAL_ID_AUTHORIZATION_FAILED");
}

async function refusals(ask: () => Promise<unknown>): Promise<Refusals> {
  try {
    await ask();
    return [];
  } catch (error) {
    const found = brokerErrors(error);
    if (found.length === 0) throw error;
    return found;
  }
}

type Metadata = Awaited<ReturnType<typeof metadataV9.api.async>>;

/** `names` null: all, without what the user may do with each. */
async function describeTopics(
  connection: Connection,
  names: string[] | null,
): Promise<{ readonly brokers: Metadata["brokers"]; readonly topics: readonly TopicFacts[] }> {
  const answer = await withRefusals(metadataV9.api.async(connection, names, false, names !== null, false));
  const topics = answer.topics.flatMap((topic): TopicFacts[] => {
    const { name, errorCode, partitions, topicAuthorizedOperations: operations } = topic;
    if (name === null) return [];
    const may = (bit: number) =>
      names === null || operations === unknownOperations ? null : (operations & (1 << bit)) !== 0;
    const presence = partitions.length > 0 ? "there" : errorCode === missingTopic ? "missing" : "hidden";
    const replicas = Math.min(...partitions.map(({ replicaNodes }) => replicaNodes.length));
    return [{ name, presence, replicas, mayRead: may(operation.read), mayWrite: may(operation.write) }];
  });
  return { brokers: answer.brokers, topics };
}
