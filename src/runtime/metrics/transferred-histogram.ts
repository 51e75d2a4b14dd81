// A histogram whose values were counted in other threads: it adds up the counts of each bucket.
// https://prometheus.io/docs/instrumenting/exposition_formats/#histograms-and-summaries

import type { Distribution } from "../../measure/distribution.ts";

interface Series {
  readonly counts: number[];
  sum: number;
}

/** Registered with prom-client, which calls `get` for the text. */
export class TransferredHistogram {
  readonly type = "histogram";
  readonly aggregator = "sum";
  readonly #series = new Map<string, Series>();

  constructor(
    readonly name: string,
    readonly help: string,
    private readonly bounds: readonly number[],
  ) {}

  /** @param added the counts since the last call for the connector */
  add(connector: string, added: Distribution): void {
    const series = this.#series.get(connector) ?? { counts: added.counts.map(() => 0), sum: 0 };
    for (const [index, count] of added.counts.entries()) series.counts[index]! += count;
    series.sum += added.sum;
    this.#series.set(connector, series);
  }

  remove(connector: string): void {
    this.#series.delete(connector);
  }

  async get() {
    const values = [...this.#series].flatMap(([connector, series]) => this.#valuesOf(connector, series));
    return { name: this.name, help: this.help, type: this.type, aggregator: this.aggregator, values };
  }

  /** Prometheus' buckets are cumulative. */
  #valuesOf(connector: string, { counts, sum }: Series) {
    let below = 0;
    const ranges = counts.map((count, index) => {
      below += count;
      const le = this.bounds[index] ?? "+Inf";
      return { metricName: `${this.name}_bucket`, labels: { le, connector }, value: below };
    });
    const labels = { connector };
    return [
      ...ranges,
      { metricName: `${this.name}_sum`, labels, value: sum },
      { metricName: `${this.name}_count`, labels, value: below },
    ];
  }
}
