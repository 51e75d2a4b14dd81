// Which topic each table's messages go to, and the queues of its partitions. Topics are made when their tables are met.

import { qualifiedName, type Relation } from "../../change/relation.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { checkpointTopic } from "./checkpoint/checkpoint-topic.ts";
import type { TopicPlan } from "./client/topics.ts";
import type { KafkaSettings } from "./kafka-settings.ts";
import type { ProducerSession } from "./produce/producer-session.ts";
import { PartitionQueue } from "./produce/round.ts";
import { type TopicTable, topicCollisions, topicName } from "./topic-name.ts";

interface TableQueues {
  readonly topic: string;
  readonly queues: readonly PartitionQueue[];
}

interface FirstTable {
  readonly id: number;
  readonly name: string;
  readonly table: TopicTable;
}

export class TopicQueues {
  readonly #queues = new Map<string, readonly PartitionQueue[]>();
  /** By topic, the first of its tables. Others that share it are the same in all that the template names. */
  readonly #firstTables = new Map<string, FirstTable>();

  constructor(
    private readonly settings: Pick<KafkaSettings, "config" | "database" | "topics">,
    private readonly session: Pick<ProducerSession, "topics">,
  ) {}

  /** Nothing is known of the topics any more. */
  clear(): void {
    this.#queues.clear();
  }

  /**
   * Makes the topics that are missing, many at once. `relations`: all tables. Throws `invalid_topic_name` where two tables would share a topic that the template
   * tells apart.
   */
  async prepare(relations: readonly Relation[]): Promise<void> {
    const ids = new Set(relations.map(({ id }) => id));
    // The topic of a table that was dropped is another one's by now.
    for (const [topic, { id }] of this.#firstTables) if (!ids.has(id)) this.#firstTables.delete(topic);
    await this.#ensure(
      relations.map((relation) => this.#topicOf(relation)),
      this.settings.topics,
    );
  }

  /** Throws as `prepare`. */
  async ofTable(relation: Relation): Promise<TableQueues> {
    const topic = this.#topicOf(relation);
    return { topic, queues: await this.of(topic, this.settings.topics) };
  }

  async of(topic: string, plan: TopicPlan): Promise<readonly PartitionQueue[]> {
    await this.#ensure([topic], plan);
    return this.#queues.get(topic) ?? [];
  }

  async #ensure(topics: readonly string[], plan: TopicPlan): Promise<void> {
    const unknown = new Set(topics.filter((topic) => !this.#queues.has(topic)));
    if (unknown.size === 0) return;
    for (const [topic, partitions] of await this.session.topics.ensure([...unknown], plan)) {
      // Somebody else has asked meanwhile: a partition has one queue, which counts its messages.
      if (this.#queues.has(topic)) continue;
      const queues = Array.from({ length: partitions }, (_, i) => new PartitionQueue(topic, i));
      this.#queues.set(topic, queues);
    }
  }

  #topicOf(relation: Relation): string {
    const { config, database } = this.settings;
    const { topic_name_template: template, topic_options: options } = config;
    const table = { database, schema: relation.schema, table: relation.name };
    const topic = topicName(template, table, options.naming_mode);
    this.#requireOwnTopic(topic, { id: relation.id, name: qualifiedName(relation), table });
    return topic;
  }

  #requireOwnTopic(topic: string, own: FirstTable): void {
    const { id, name, table } = own;
    if (topic === checkpointTopic)
      throw new MillraceError(
        "invalid_topic_name",
        `The topic of table ${name} would be ${topic}, which holds checkpoints.`,
      );
    const first = this.#firstTables.get(topic);
    // It may have been renamed since.
    if (!first || first.id === id) {
      this.#firstTables.set(topic, own);
      return;
    }
    const { topic_name_template: template, topic_options: options } = this.settings.config;
    if (topicCollisions(template, [first.table, table], options.naming_mode).length === 0) return;
    const text =
      `Tables ${first.name} and ${name} would share topic ${topic}, as characters that Kafka does not take are replaced. ` +
      'Set topic_options.naming_mode to "Unicode", or exclude one of them.';
    throw new MillraceError("invalid_topic_name", text);
  }
}
