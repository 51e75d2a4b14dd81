// Counts values by bucket, as a Prometheus histogram does, in plain data that passes between threads.
// https://prometheus.io/docs/concepts/metric_types/#histogram

/** `counts[i]`: values up to `bounds[i]` and above the bound before; the last one: values above all bounds. */
export interface Distribution {
  readonly counts: readonly number[];
  readonly sum: number;
}

/** Counts the values of one measure. */
export class DistributionCounter {
  /** Number of values. */
  count = 0;
  readonly #counts: number[];
  #sum = 0;

  /** @param bounds in ascending order */
  constructor(private readonly bounds: readonly number[]) {
    this.#counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    let index = 0;
    while (index < this.bounds.length && value > this.bounds[index]!) index++;
    this.#counts[index]!++;
    this.count++;
    this.#sum += value;
  }

  distribution(): Distribution {
    return { counts: [...this.#counts], sum: this.#sum };
  }
}

/** What the same counter has added since `before`; undefined: everything. */
export function addedSince(before: Distribution | undefined, now: Distribution): Distribution {
  if (!before) return now;
  return {
    counts: now.counts.map((count, index) => count - (before.counts[index] ?? 0)),
    sum: now.sum - before.sum,
  };
}
