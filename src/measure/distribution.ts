// How often a value has come into which range: what a histogram of Prometheus is made of, as plain data that passes between threads.
// https://prometheus.io/docs/concepts/metric_types/#histogram

/** `counts[i]`: values up to `bounds[i]` and above the bound before; the last one: values above all bounds. */
export interface Distribution {
  readonly counts: readonly number[];
  readonly sum: number;
}

/** Counts one measure from when it is made. */
export class DistributionCounter {
  /** How many values there were. */
  count = 0;
  readonly #counts: number[];
  #sum = 0;

  /** @param bounds in rising order */
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

/** What has come since `before`, of the same counter; all of it without. */
export function addedSince(before: Distribution | undefined, now: Distribution): Distribution {
  if (!before) return now;
  return {
    counts: now.counts.map((count, index) => count - (before.counts[index] ?? 0)),
    sum: now.sum - before.sum,
  };
}
