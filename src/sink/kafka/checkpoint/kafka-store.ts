// Where a Kafka connector keeps its record. With transactions it is in Kafka, and a save commits it with the messages that were added
// before. Without them it is in the service's state.

import type { ChangedParts, SavedRecord } from "../../../connector/saved-record.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { CheckpointStore } from "../../sink.ts";
import type { Cluster } from "../client/cluster.ts";
import type { TopicPlan } from "../client/topics.ts";
import type { KafkaSettings } from "../kafka-settings.ts";
import { plainHeaders } from "../message-headers.ts";
import type { ProducerLog } from "../produce/producer-log.ts";
import type { ProducerSession } from "../produce/producer-session.ts";
import type { PartitionQueue } from "../produce/round.ts";
import { dropStaged, type StagedReceipts } from "../receipts/staged-receipts.ts";
import type { TopicQueues } from "../topic-queues.ts";
import {
  type CheckpointPlace,
  checkpointPartitions,
  checkpointTopic,
  findCheckpoint,
  partKey,
  receiptsHeader,
  retriedHeader,
  runHeader,
  utf8,
} from "./checkpoint-topic.ts";

/** Of the topic of checkpoints, where it is to be made. */
const mostReplicas = 3;
/** Small segments, cleaned early: a run begins by reading a partition. */
const topicConfig = [
  { key: "cleanup.policy", value: "compact" },
  { key: "segment.bytes", value: String(16 * 1024 * 1024) },
  { key: "min.cleanable.dirty.ratio", value: "0.1" },
  // A table's part holds up to 1 MB of keys.
  { key: "max.message.bytes", value: String(4 * 1024 * 1024) },
] as const;

const markName = "committed_by_run";

/** A run of the connector, over all its sessions. */
export interface KafkaRun {
  /** Names it in what it leaves in Kafka. */
  readonly id: string;
  /** It has committed something: a record of another run says that somebody took over. */
  hasCommitted: boolean;
}

/** What is parked, as a commit sees it. */
export interface ParkingAtCommit {
  /** Before anything is sent. `retried`: ids of messages that are committed, which the state may not know. */
  begin(retried: readonly string[]): Promise<void>;
  /** Resolves when all that was parked is in the state; null: it is. */
  stored(): Promise<void> | null;
  /** Ids of the messages that were sent again and that the state takes for parked. */
  retried(): readonly string[];
  /** They are committed. */
  committed(retried: readonly string[]): void;
}

export class KafkaStore implements CheckpointStore {
  #queue: PartitionQueue | null = null;

  constructor(
    private readonly settings: KafkaSettings,
    private readonly run: KafkaRun,
    private readonly session: ProducerSession,
    private readonly log: ProducerLog,
    private readonly topics: TopicQueues,
    private readonly state: CheckpointStore,
    /** Null: nothing is parked. */
    private readonly parking: ParkingAtCommit | null = null,
    /** Null: without transactions, or without receipts. */
    private readonly staged: StagedReceipts | null = null,
  ) {}

  /** Begins the producer: what a dead run left is decided, and one that still lives is fenced. */
  async load(): Promise<SavedRecord | null> {
    const own = await this.state.load();
    this.run.hasCommitted ||= own?.text === this.#mark;
    const { hasCommitted } = this.run;
    // A run that took over is not fenced by the one that it has fenced.
    await this.session.begin(async (cluster) => {
      const layout = hasCommitted
        ? (await cluster.topics([checkpointTopic], true)).get(checkpointTopic)
        : null;
      if (layout) await this.#find(cluster, layout.leaders.length);
    });
    this.topics.clear();
    if (!this.staged) await dropStaged(this.state, own);
    if (this.settings.sender.transactionalId === null) {
      await this.parking?.begin([]);
      return own && !isMark(own.text) ? own : null;
    }
    const queues = await this.topics.of(checkpointTopic, this.#plan);
    const { partition, stored } = await this.#find(this.session.cluster, queues.length);
    this.#queue = queues[partition]!;
    await this.parking?.begin(stored?.retried ?? []);
    if (this.staged) await this.#beginReceipts(this.staged, stored?.receipts ?? null);
    return stored?.record ?? null;
  }

  /** With transactions all or nothing of it is committed, and of the messages before it. */
  async save(text: string, parts: ChangedParts = new Map()): Promise<void> {
    if (!this.#queue) return await this.state.save(text, parts);
    const receipts = this.staged?.stage();
    const storing = this.parking?.stored();
    // What was parked instead of being sent is in the state before the record says that it is done.
    if (storing) this.log.waitFor(storing);
    const retried = this.parking?.retried() ?? [];
    const commit = this.staged?.lastCommit ?? null;
    for (const [table, part] of parts) this.#add(partKey(this.settings.checkpointKey, table), part);
    this.#add(this.settings.checkpointKey, text, [
      ...(retried.length === 0 ? [] : [[retriedHeader, retried.join(",")] as const]),
      ...(commit === null ? [] : [[receiptsHeader, commit] as const]),
    ]);
    await this.log.seal(true);
    this.parking?.committed(retried);
    if (receipts) await this.staged?.committed(receipts);
    if (this.run.hasCommitted) return;
    this.run.hasCommitted = true;
    // Without the mark this run would fence one that has taken over, as a new run would.
    // With receipts, their save has the mark: it also removes what was staged.
    (this.staged?.confirm() ?? this.state.save(this.#mark)).catch(() => undefined);
  }

  /** What a run that was fenced has staged up to then is read, too: none of its transactions is open by now. */
  async #beginReceipts(staged: StagedReceipts, committed: string | null): Promise<void> {
    const own = await this.state.load();
    const before = own && isMark(own.text) ? own.text : JSON.stringify({ [markName]: null });
    await staged.begin(own, committed, () => (this.run.hasCommitted ? this.#mark : before));
  }

  /** In the service's state: this run has committed, and a record of another run says that somebody has taken over. */
  get #mark(): string {
    return JSON.stringify({ [markName]: this.run.id });
  }

  /** Throws `kafka_fenced` where another run has committed. */
  async #find(cluster: Cluster, partitions: number): Promise<CheckpointPlace> {
    const place = await this.session.askAgain(`read the checkpoint from topic ${checkpointTopic}`, () =>
      findCheckpoint(cluster, this.settings.checkpointKey, partitions),
    );
    if (this.run.hasCommitted && place.stored && place.stored.run !== this.run.id) throw takenOver();
    return place;
  }

  #add(key: string, text: string | null, headers: readonly (readonly [string, string])[] = []): void {
    const all = plainHeaders([[runHeader, this.run.id], ...headers]);
    this.log.add(this.#queue!, utf8(key), text === null ? null : utf8(text), all);
  }

  get #plan(): TopicPlan {
    return checkpointPlan(this.session.cluster.brokerCount, this.settings.topics.operationTimeoutMs);
  }
}

function isMark(text: string): boolean {
  return text.startsWith(`{"${markName}":`);
}

/** How the topic of checkpoints is made. */
export function checkpointPlan(brokers: number, operationTimeoutMs: number): TopicPlan {
  const replicationFactor = Math.min(mostReplicas, Math.max(1, brokers));
  const plan = { partitions: checkpointPartitions, replicationFactor, config: topicConfig };
  return { ...plan, operationTimeoutMs };
}

/**
 * What people should know of the topic of checkpoints; null: nothing. One that is made while brokers are down keeps the replicas that it
 * got, and so does one of a cluster that grows.
 */
export function replicasWarning(replicas: number, brokers: number): string | null {
  const wanted = Math.min(mostReplicas, brokers);
  if (replicas >= wanted) return null;
  return (
    `Topic ${checkpointTopic} has ${replicas === 1 ? "1 replica" : `${replicas} replicas`}, and the cluster has ${brokers} brokers. ` +
    `If the brokers that have it are lost, the connector cannot go on. Give it ${wanted} replicas with kafka-reassign-partitions.`
  );
}

function takenOver(): MillraceError {
  const text =
    "Another service has run this connector meanwhile: its checkpoint is not this run's. " +
    "Stop the connector in one of the two services, then start it in the other.";
  return new MillraceError("kafka_fenced", text);
}
