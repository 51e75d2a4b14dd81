// The service's metrics in Prometheus' text format. Labels are bounded: the connectors there are, and fixed words.
// https://prometheus.io/docs/instrumenting/exposition_formats/

import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { MetricsService } from "../api/services.ts";
import type { State } from "../state/open-state.ts";
import type { RunMetrics } from "./messages.ts";
import type { MeasurementListener, StatusBoard } from "./status-board.ts";

const latencyBucketsSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** Counters of a run that go on over runs: name → help, and where the value stands in a measurement. */
const counted = {
  millrace_rows_in_total: ["Rows that came from sources.", (m: RunMetrics) => m.rowsIn],
  millrace_rows_durable_total: ["Rows that are durable at sinks.", (m: RunMetrics) => m.rowsDurable],
  millrace_bytes_durable_total: [
    "Bytes of rows that are durable at sinks.",
    (m: RunMetrics) => m.bytesDurable,
  ],
  millrace_requests_total: ["Webhook requests that were answered with 2xx.", (m: RunMetrics) => m.requests],
} as const;

const gauged = {
  millrace_lag_bytes: [
    "Bytes of the source's log that are not acknowledged yet.",
    (m: RunMetrics) => m.lagBytes,
  ],
  millrace_snapshot_rows: ["Rows copied by the initial copy.", (m: RunMetrics) => m.snapshot.rows],
  millrace_snapshot_estimated_rows: [
    "Rows that the initial copy expects.",
    (m: RunMetrics) => m.snapshot.estimatedRows,
  ],
  millrace_snapshot_tables: ["Tables of the initial copy.", (m: RunMetrics) => m.snapshot.tables],
  millrace_snapshot_tables_done: [
    "Tables of the initial copy that are durable.",
    (m: RunMetrics) => m.snapshot.tablesDone,
  ],
} as const;

type Reading = readonly [help: string, read: (metrics: RunMetrics) => number];

export interface MetricsContext {
  readonly state: State;
  readonly board: StatusBoard;
  readonly version: string;
}

export class PrometheusMetricsService implements MetricsService, MeasurementListener {
  readonly #registry = new Registry();
  readonly #counters: ReadonlyMap<Counter<"connector">, Reading>;
  readonly #gauges: ReadonlyMap<Gauge<"connector">, Reading>;
  readonly #latency: Histogram<"connector">;
  readonly #connectors: Gauge<"state" | "health">;
  readonly #tasks: Gauge<"state">;
  readonly #setAside: Gauge<"connector">;
  readonly #memory: Gauge;
  /** The last measurement of each connector's run, to count what was added since. */
  readonly #last = new Map<string, RunMetrics>();

  constructor(private readonly context: MetricsContext) {
    const registers = [this.#registry];
    const labelNames = ["connector"] as const;
    this.#counters = new Map(
      entries(counted).map(([name, reading]) => [
        new Counter({ name, help: reading[0], labelNames, registers }),
        reading,
      ]),
    );
    this.#gauges = new Map(
      entries(gauged).map(([name, reading]) => [
        new Gauge({ name, help: reading[0], labelNames, registers }),
        reading,
      ]),
    );
    this.#latency = new Histogram({
      name: "millrace_latency_seconds",
      help: "From commit at the source to durable at the sink; sampled about twice a second.",
      ...{ labelNames, registers, buckets: latencyBucketsSeconds },
    });
    this.#connectors = new Gauge({
      name: "millrace_connectors",
      help: "Connectors by phase and health.",
      ...{ labelNames: ["state", "health"], registers },
    });
    this.#tasks = new Gauge({
      name: "millrace_tasks",
      help: "Tasks by state.",
      ...{ labelNames: ["state"], registers },
    });
    this.#setAside = new Gauge({
      name: "millrace_tables_set_aside",
      help: "Tables that stand until somebody has changed them at the sink, while the others go on.",
      ...{ labelNames, registers },
    });
    this.#memory = new Gauge({
      name: "process_resident_memory_bytes",
      help: "Resident memory size in bytes.",
      registers,
    });
    new Gauge({
      name: "process_start_time_seconds",
      help: "Start time of the process since unix epoch in seconds.",
      registers,
    }).set(Math.round(performance.timeOrigin / 1000));
    const build = { name: "millrace_build_info", help: "1; the version is in the label." };
    new Gauge({ ...build, labelNames: ["version"], registers }).set({ version: context.version }, 1);
  }

  /** A connector's run has measured itself. */
  measured(connector: string, metrics: RunMetrics): void {
    const last = this.#last.get(connector);
    for (const [counter, [, read]] of this.#counters) {
      const before = last ? read(last) : 0;
      const now = read(metrics);
      // A worker that was started again counts from zero again.
      counter.inc({ connector }, now >= before ? now - before : now);
    }
    const isNews = metrics.rowsDurable !== last?.rowsDurable;
    if (metrics.latencyMs !== null && isNews) this.#latency.observe({ connector }, metrics.latencyMs / 1000);
    this.#last.set(connector, metrics);
  }

  /** The connector is gone: so are its series. */
  forget(connector: string): void {
    this.#last.delete(connector);
    for (const counter of this.#counters.keys()) counter.remove({ connector });
    for (const gauge of this.#gauges.keys()) gauge.remove({ connector });
    this.#latency.remove({ connector });
  }

  async text(): Promise<string> {
    // What a run measured is not what the next one does.
    for (const gauge of this.#gauges.keys()) gauge.reset();
    for (const [connector, metrics] of this.context.board.metrics()) {
      for (const [gauge, [, read]] of this.#gauges) gauge.set({ connector }, read(metrics));
    }
    this.#connectors.reset();
    for (const { state, health, count } of this.context.board.countByStatus()) {
      this.#connectors.set({ state, health }, count);
    }
    this.#setAside.reset();
    for (const [connector, count] of this.context.board.countSetAside())
      this.#setAside.set({ connector }, count);
    this.#memory.set(process.memoryUsage.rss());
    await this.#countTasks();
    return this.#registry.metrics();
  }

  /** While the store does not answer, the rest is still told. */
  async #countTasks(): Promise<void> {
    this.#tasks.reset();
    try {
      for (const [state, count] of await this.context.state.tasks.countByState())
        this.#tasks.set({ state }, count);
    } catch {
      this.#tasks.reset();
    }
  }
}

function entries(readings: Readonly<Record<string, Reading>>): [string, Reading][] {
  return Object.entries(readings);
}
