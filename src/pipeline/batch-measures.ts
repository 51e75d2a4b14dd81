// Distributions of the sizes and durations of a run's batches, since the run began.

import { rowBounds, secondBounds } from "../measure/bounds.ts";
import { type Distribution, DistributionCounter } from "../measure/distribution.ts";

export interface BatchDistributions {
  /** Changes in a batch. */
  readonly rows: Distribution;
  /** In seconds, for the sink to take a batch over. */
  readonly write: Distribution;
  /** In seconds, from when a batch was handed to the sink until it was durable. */
  readonly durable: Distribution;
  /** In seconds, from the last commit of a batch until that was durable. */
  readonly latency: Distribution;
}

export class BatchMeasures {
  readonly rows = new DistributionCounter(rowBounds);
  readonly write = new DistributionCounter(secondBounds);
  readonly durable = new DistributionCounter(secondBounds);
  readonly latency = new DistributionCounter(secondBounds);

  /** How many values were observed. */
  get count(): number {
    return this.rows.count + this.write.count + this.durable.count + this.latency.count;
  }

  distributions(): BatchDistributions {
    return {
      rows: this.rows.distribution(),
      write: this.write.distribution(),
      durable: this.durable.distribution(),
      latency: this.latency.distribution(),
    };
  }
}
