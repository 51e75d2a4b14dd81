// Makes topics that are missing, and tells how many partitions a topic has. One that is there is left as it is.

import { ConfigResourceTypes, type Connection, createTopicsV6, describeConfigsV4 } from "@platformatic/kafka";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { Cluster, TopicLayout } from "./cluster.ts";
import { brokerErrors, kafkaFailure, withRefusals } from "./kafka-error.ts";

export interface TopicPlan {
  readonly partitions: number;
  readonly replicationFactor: number;
  readonly config: readonly { readonly key: string; readonly value: string }[];
  readonly operationTimeoutMs: number;
}

/** A topic that was made may be unknown to some broker, or have no leader, for a moment; where many are made, one of them appears sooner. */
const appearWithinMs = 15_000;
const lookAgainMs = 20;
const mostLookAgainMs = 320;
/** In one request: a controller takes some ms for each. */
const mostAtOnce = 200;
/** Of one request in the controller's log. With more than 10,000 it refuses all topics (MAX_RECORDS_PER_USER_OP of KRaft). */
const mostRecords = 5_000;

export type Settings = ReadonlyMap<string, string>;

const resourceTypes = { topic: ConfigResourceTypes.TOPIC, broker: ConfigResourceTypes.BROKER } as const;

/** Settings of topics or brokers, by name; of those that the user may read. */
export async function readSettings(
  connection: Connection,
  of: keyof typeof resourceTypes,
  names: readonly string[],
  keys: string[],
): Promise<ReadonlyMap<string, Settings>> {
  const resources = names.map((resourceName) => {
    return { resourceType: resourceTypes[of], resourceName, configurationKeys: keys };
  });
  const answer = await withRefusals(describeConfigsV4.api.async(connection, resources, false, false));
  const readable = answer.results.filter(({ errorCode }) => errorCode === 0);
  return new Map(
    readable.map(({ resourceName, configs }) => [
      resourceName,
      new Map(configs.map(({ name, value }) => [name, value ?? ""])),
    ]),
  );
}

/** A topic to be made, as the client asks for it. */
export function newTopic(name: string, { partitions, replicationFactor, config }: TopicPlan) {
  const configs = config.map(({ key, value }) => ({ name: key, value }));
  return { name, numPartitions: partitions, replicationFactor, assignments: [], configs };
}

function topicsAtOnce({ partitions, config }: TopicPlan): number {
  const recordsOfOne = 1 + partitions + config.length;
  return Math.min(mostAtOnce, Math.max(1, Math.floor(mostRecords / recordsOfOne)));
}

export class Topics {
  constructor(
    private readonly cluster: Cluster,
    private readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>,
    private readonly monotonic: () => number,
    private readonly signal: AbortSignal,
  ) {}

  /** Returns how many partitions each has. Those that are missing are made by `plan`. */
  async ensure(names: readonly string[], plan: TopicPlan): Promise<ReadonlyMap<string, number>> {
    const there = await this.cluster.topics(names, true);
    const missing = names.filter((name) => !there.has(name));
    const layouts = new Map(there);
    const atOnce = topicsAtOnce(plan);
    for (let i = 0; i < missing.length; i += atOnce) {
      const some = missing.slice(i, i + atOnce);
      await this.#create(some, plan);
      // Before more are made: brokers that have much to do would be asked about all of them again and again.
      for (const [name, layout] of await this.#appeared(some)) layouts.set(name, layout);
    }
    return new Map([...layouts].map(([name, { leaders }]) => [name, leaders.length]));
  }

  async #appeared(names: readonly string[]): Promise<ReadonlyMap<string, TopicLayout>> {
    const made = new Map<string, TopicLayout>();
    let absent = names;
    let waitMs = lookAgainMs;
    for (let untilMs = this.monotonic() + appearWithinMs; ; ) {
      const before = made.size;
      for (const [name, layout] of await this.cluster.topics(absent))
        if (!layout.leaders.includes(-1)) made.set(name, layout);
      absent = names.filter((name) => !made.has(name));
      if (absent.length === 0) return made;
      if (made.size > before) untilMs = this.monotonic() + appearWithinMs;
      if (this.monotonic() >= untilMs)
        throw new MillraceError("sink_unreachable", `Topic ${absent[0]} was made, and has no leader yet.`);
      await this.sleep(waitMs, this.signal);
      waitMs = Math.min(2 * waitMs, mostLookAgainMs);
    }
  }

  async #create(names: readonly string[], plan: TopicPlan): Promise<void> {
    const topics = names.map((name) => newTopic(name, plan));
    try {
      await this.cluster.askController((connection) =>
        createTopicsV6.api.async(connection, topics, plan.operationTimeoutMs, false),
      );
    } catch (error) {
      // Another producer may have made one just now.
      const refusals = brokerErrors(error).filter(({ id }) => id !== "TOPIC_ALREADY_EXISTS");
      if (refusals.length === 0 && brokerErrors(error).length > 0) return;
      throw kafkaFailure(
        error,
        names.length === 1 ? `make topic ${names[0]}` : `make ${names.length} topics`,
      );
    }
  }
}

/** The command that sets it, for people. `setting`: as `name=value`. */
export function alterTopic(topic: string, setting: string): string {
  return `kafka-configs.sh --bootstrap-server … --alter --entity-type topics --entity-name ${topic} --add-config ${setting}`;
}
