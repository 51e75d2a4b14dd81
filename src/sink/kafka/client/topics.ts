// Makes topics that are missing, and tells how many partitions a topic has. One that is there is left as it is.

import { createTopicsV6 } from "@platformatic/kafka";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { Cluster, TopicLayout } from "./cluster.ts";
import { brokerErrors, kafkaFailure } from "./kafka-error.ts";

export interface TopicPlan {
  readonly partitions: number;
  readonly replicationFactor: number;
  readonly config: readonly { readonly key: string; readonly value: string }[];
  readonly operationTimeoutMs: number;
}

/** A topic that was made may be unknown to some broker for a moment. */
const appearWithinMs = 15_000;
const lookAgainMs = 20;

export class Topics {
  constructor(
    private readonly cluster: Cluster,
    private readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>,
    private readonly monotonic: () => number,
    private readonly signal: AbortSignal,
  ) {}

  /** Returns the number of partitions of `name`, which is made by `plan` if it is missing. */
  async partitions(name: string, plan: TopicPlan): Promise<number> {
    const known = await this.#layout(name, true);
    if (known) return known.leaders.length;
    await this.#create(name, plan);
    const untilMs = this.monotonic() + appearWithinMs;
    for (;;) {
      const made = await this.#layout(name, true);
      if (made && !made.leaders.includes(-1)) return made.leaders.length;
      if (this.monotonic() >= untilMs)
        throw new MillraceError("sink_unreachable", `Topic ${name} was made, and has no leader yet.`);
      await this.sleep(lookAgainMs, this.signal);
    }
  }

  async #layout(name: string, isFresh: boolean): Promise<TopicLayout | undefined> {
    return (await this.cluster.topics([name], isFresh)).get(name);
  }

  async #create(name: string, plan: TopicPlan): Promise<void> {
    const topic = {
      name,
      numPartitions: plan.partitions,
      replicationFactor: plan.replicationFactor,
      assignments: [],
      configs: plan.config.map(({ key, value }) => ({ name: key, value })),
    };
    try {
      const connection = await this.cluster.any();
      await createTopicsV6.api.async(connection, [topic], plan.operationTimeoutMs, false);
    } catch (error) {
      // Another producer may have made it just now.
      if (brokerErrors(error).some(({ id }) => id === "TOPIC_ALREADY_EXISTS")) return;
      throw kafkaFailure(error, `make topic ${name}`);
    }
  }
}
