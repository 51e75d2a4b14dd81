// Counts what the producer of a Kafka connector does, since its attempt began.

import { secondBounds } from "../../measure/bounds.ts";
import { type Distribution, DistributionCounter } from "../../measure/distribution.ts";

/** Plain data, which passes between threads. */
export interface KafkaCounts {
  /** That brokers have taken, tombstones and records of the checkpoint among them. */
  readonly messages: number;
  /** Of batches, as they were sent: compressed where they are. */
  readonly bytes: number;
  /** Seconds from when all messages of a transaction were taken until it was committed. */
  readonly commits: Distribution;
  /** Tries after the first one. */
  readonly retries: number;
}

export class KafkaCounter {
  /** Rises with whatever is counted. */
  count = 0;
  #messages = 0;
  #bytes = 0;
  #retries = 0;
  readonly #commits = new DistributionCounter(secondBounds);

  sent(messages: number, bytes: number): void {
    this.count++;
    this.#messages += messages;
    this.#bytes += bytes;
  }

  committed(ms: number): void {
    this.count++;
    this.#commits.observe(ms / 1000);
  }

  retried(): void {
    this.count++;
    this.#retries++;
  }

  counts(): KafkaCounts {
    return {
      messages: this.#messages,
      bytes: this.#bytes,
      retries: this.#retries,
      commits: this.#commits.distribution(),
    };
  }
}
