// Writes the metrics of prom-client as an OTLP request in JSON. Names and labels stay those of /metrics, so that one
// dashboard fits both. Pure.
// https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
// https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/metrics/v1/metrics.proto

/** A metric as `Registry.getMetricsAsJSON` gives it, as far as it is read here. */
export interface PromMetric {
  readonly name: string;
  readonly help: string;
  /** A MetricType of prom-client, by name. */
  readonly type: unknown;
  readonly values: readonly PromValue[];
}

export interface PromValue {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number | undefined>>;
  /** Of a histogram: the name with `_bucket`, `_sum` or `_count`. */
  readonly metricName?: string;
}

export interface OtlpSource {
  readonly version: string;
  readonly resource: Readonly<Record<string, string>>;
}

/** When a series that only grows began to count, in milliseconds since 1970-01-01 UTC. */
export type StartOf = (series: string, value: number) => number;

/** In protobuf's JSON form 64-bit integers are strings, and OTLP wants enums as numbers. */
const cumulative = 2;

/** An ExportMetricsServiceRequest. */
export function otlpRequest(
  { version, resource }: OtlpSource,
  metrics: readonly PromMetric[],
  nowMs: number,
  startOf: StartOf,
): object {
  const encoded = metrics.map((metric) => otlpMetric(metric, nanoseconds(nowMs), startOf));
  const scopeMetrics = [
    { scope: { name: "millrace", version }, metrics: encoded.filter((each) => each !== null) },
  ];
  return { resourceMetrics: [{ resource: { attributes: attributes(resource) }, scopeMetrics }] };
}

/** Null: there is nothing to tell of it. */
function otlpMetric(metric: PromMetric, timeUnixNano: string, startOf: StartOf): object | null {
  const { name, help: description, type } = metric;
  const values = metric.values.filter(({ value }) => Number.isFinite(value));
  if (values.length === 0) return null;
  switch (type) {
    case "counter": {
      const dataPoints = values.map(({ labels, value }) => {
        const startTimeUnixNano = nanoseconds(startOf(seriesOf(name, labels), value));
        return { attributes: attributes(labels), startTimeUnixNano, timeUnixNano, asDouble: value };
      });
      return {
        name,
        description,
        sum: { dataPoints, aggregationTemporality: cumulative, isMonotonic: true },
      };
    }
    case "gauge": {
      const dataPoints = values.map(({ labels, value }) => {
        return { attributes: attributes(labels), timeUnixNano, asDouble: value };
      });
      return { name, description, gauge: { dataPoints } };
    }
    case "histogram": {
      const dataPoints = histogramPoints(name, values, timeUnixNano, startOf);
      return { name, description, histogram: { dataPoints, aggregationTemporality: cumulative } };
    }
    // There are no summaries.
    default:
      return null;
  }
}

function histogramPoints(
  name: string,
  values: readonly PromValue[],
  timeUnixNano: string,
  startOf: StartOf,
): object[] {
  const series = Map.groupBy(values, ({ labels: { le: _, ...labels } }) => seriesOf(name, labels));
  return [...series].map(([key, parts]) => {
    const partOf = (part: string) =>
      parts.find(({ metricName }) => metricName === `${name}_${part}`)?.value ?? 0;
    const buckets = parts.filter(({ metricName }) => metricName === `${name}_bucket`);
    const count = partOf("count");
    const { le: _, ...labels } = parts[0]?.labels ?? {};
    return {
      attributes: attributes(labels),
      startTimeUnixNano: nanoseconds(startOf(key, count)),
      timeUnixNano,
      count: String(count),
      sum: partOf("sum"),
      // Prometheus' buckets hold those below them too, and its last one has no bound.
      bucketCounts: buckets.map(({ value }, index) => String(value - (buckets[index - 1]?.value ?? 0))),
      explicitBounds: buckets.map(({ labels: { le } }) => Number(le)).filter(Number.isFinite),
    };
  });
}

function attributes(labels: PromValue["labels"]): object[] {
  return Object.entries(labels)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ({ key, value: { stringValue: String(value) } }));
}

function seriesOf(name: string, labels: PromValue["labels"]): string {
  return JSON.stringify([name, Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))]);
}

function nanoseconds(ms: number): string {
  return `${BigInt(Math.round(ms)) * 1_000_000n}`;
}

/**
 * Remembers when each series began. One that is new, or has fallen, began after the previous collection: a connector
 * was made, or made anew under the same name.
 */
export class SeriesStarts {
  #previous = new Map<string, { readonly startMs: number; readonly value: number }>();
  #current = new Map<string, { readonly startMs: number; readonly value: number }>();

  /** `collectedMs`: when the previous collection was made, or when the process began. */
  constructor(private collectedMs: number) {}

  readonly startOf: StartOf = (series, value) => {
    const known = this.#previous.get(series);
    const startMs = known && known.value <= value ? known.startMs : this.collectedMs;
    this.#current.set(series, { startMs, value });
    return startMs;
  };

  /** Call it after each collection. Series that were not asked for are forgotten. */
  collected(nowMs: number): void {
    this.#previous = this.#current;
    this.#current = new Map();
    this.collectedMs = nowMs;
  }
}
