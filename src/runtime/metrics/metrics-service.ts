// This replica's metrics in Prometheus' text format: of the connectors that it holds, so that sums over replicas are right.
// Label values are bounded: existing connectors, and fixed words.
// https://prometheus.io/docs/instrumenting/exposition_formats/

import { Counter, Gauge, Registry } from "prom-client";
import type { HealthService, MetricsService } from "../../api/services.ts";
import type { ParkedTotal } from "../../connector/parked-message.ts";
import { type Task, taskStates } from "../../connector/task.ts";
import { tableOfTask } from "../../connector/task-table.ts";
import type { VerifyResult } from "../../connector/verification.ts";
import type { SlotLog } from "../../pipeline/run-reporter.ts";
import type { StatusBoard } from "../status/status-board.ts";
import type { StatusWatch } from "../status/status-watch.ts";
import { withStoreTimeout } from "../status/store-timeout.ts";
import type { RunMetrics } from "../threads/messages.ts";
import type { ThreadWatch } from "../threads/thread-watch.ts";
import type { PromMetric } from "./otlp-encoding.ts";
import { RunSeries } from "./run-series.ts";

export interface MetricsContext {
  readonly board: StatusBoard;
  readonly threads: ThreadWatch;
  readonly version: string;
  readonly replicaId: string;
  /** Whether this replica holds the connector. */
  readonly holds: (connectorId: string) => boolean;
  /** Connectors that are to run and that no replica holds, as far as is known. */
  readonly leftAlone: () => Iterable<string>;
  readonly health: HealthService;
  /** What the connector's slot keeps, whether it runs or not; null: not known, or there is none. */
  readonly slotOf: (connectorId: string) => SlotLog | null;
  /** Tasks of the connectors that it holds, by state. */
  readonly countTasks: () => Promise<ReadonlyMap<Task["state"], number>>;
  /** What is parked of the connectors that it holds. */
  readonly countParked: () => Promise<ReadonlyMap<string, ParkedTotal>>;
  /** Bytes of the receipts of the connectors that it holds. */
  readonly countReceipts: () => Promise<ReadonlyMap<string, number>>;
}

export class PrometheusMetricsService implements MetricsService, StatusWatch {
  readonly #registry = new Registry();
  readonly #runs: RunSeries;
  readonly #ready: Gauge;
  readonly #connectors: Gauge<"state" | "health">;
  readonly #status: Gauge<"connector" | "state" | "health">;
  readonly #holder: Gauge<"connector" | "replica">;
  readonly #tasks: Gauge<"state">;
  readonly #setAside: Gauge<"connector">;
  readonly #verifiedRows: Counter<"connector">;
  readonly #differences: Gauge<"connector">;
  /** Rows that differed, by connector and table. */
  readonly #differing = new Map<string, Map<string, number>>();
  readonly #parkedMessages: Gauge<"connector">;
  readonly #parkedBytes: Gauge<"connector">;
  readonly #receiptsBytes: Gauge<"connector">;
  readonly #loopDelay: Gauge<"connector" | "thread">;
  readonly #memory: Gauge;

  constructor(private readonly context: MetricsContext) {
    this.#runs = new RunSeries(this.#registry);
    this.#ready = this.#gauge("millrace_ready", "1 where /readyz answers 200; 0 where it answers 503.", []);
    this.#connectors = this.#gauge("millrace_connectors", "Connectors by phase and health.", [
      "state",
      "health",
    ]);
    this.#status = this.#gauge("millrace_connector_status", "1 for the phase and health of each connector.", [
      "connector",
      "state",
      "health",
    ]);
    this.#holder = this.#gauge(
      "millrace_connector_holder",
      "1 for each connector that the replica holds; 0 for each that is to run and that no replica holds.",
      ["connector", "replica"],
    );
    this.#tasks = this.#gauge("millrace_tasks", "Tasks by state, of the connectors that the replica holds.", [
      "state",
    ]);
    this.#setAside = this.#gauge(
      "millrace_tables_set_aside",
      "Tables that stand until somebody has changed them at the sink, while the others go on.",
      ["connector"],
    );
    this.#verifiedRows = new Counter({
      name: "millrace_verify_rows_total",
      help: "Rows of the source that were compared with the sink's.",
      labelNames: ["connector"],
      registers: [this.#registry],
    });
    this.#differences = this.#gauge(
      "millrace_verify_differences",
      "Rows that differed when their tables were last compared, and were not repaired.",
      ["connector"],
    );
    this.#parkedMessages = this.#gauge(
      "millrace_parked_messages",
      "Messages that were refused, and those that wait behind them.",
      ["connector"],
    );
    this.#parkedBytes = this.#gauge("millrace_parked_bytes", "Bytes of the bodies of parked messages.", [
      "connector",
    ]);
    this.#receiptsBytes = this.#gauge("millrace_receipts_bytes", "Bytes of receipts, where any are kept.", [
      "connector",
    ]);
    this.#loopDelay = this.#gauge(
      "millrace_event_loop_delay_seconds",
      "How late a thread's event loop was at most over five seconds. The main thread has no connector.",
      ["connector", "thread"],
    );
    this.#memory = this.#gauge("process_resident_memory_bytes", "Resident memory size in bytes.", []);
    this.#gauge(
      "process_start_time_seconds",
      "Start time of the process since unix epoch in seconds.",
      [],
    ).set(Math.round(performance.timeOrigin / 1000));
    const { version } = context;
    this.#gauge("millrace_build_info", "1; the version is in the label.", ["version"]).set({ version }, 1);
  }

  /** A connector's run starts an attempt. */
  began(connector: string): void {
    if (this.context.holds(connector)) this.#runs.began(connector);
  }

  /** A connector's run has reported measurements. */
  measured(connector: string, metrics: RunMetrics): void {
    if (this.context.holds(connector)) this.#runs.measured(connector, metrics);
  }

  failed(connector: string, code: string): void {
    if (this.context.holds(connector)) this.#runs.failed(connector, code);
  }

  /** A comparison of one of its tables has ended. A sample says nothing of the other rows: what was found of all of them stays. */
  verified(connector: string, { spec }: Pick<Task, "spec">, result: VerifyResult): void {
    if (!this.context.holds(connector)) return;
    const { rows, missing, extra, changed, repaired } = result;
    this.#verifiedRows.inc({ connector }, rows);
    if (spec.Verify?.sample_percent !== undefined) return;
    const { schema, name } = tableOfTask(spec);
    const tables = this.#differing.get(connector) ?? new Map<string, number>();
    this.#differing.set(connector, tables);
    tables.set(JSON.stringify([schema, name]), missing + extra + changed - repaired);
    this.#differences.set(
      { connector },
      [...tables.values()].reduce((sum, differing) => sum + differing, 0),
    );
  }

  /** The connector begins again: its tables are not the ones that were compared. */
  forgetVerified(connector: string): void {
    this.#differing.delete(connector);
    this.#differences.remove({ connector });
  }

  /** Another replica holds the connector, which shows its series. */
  released(connector: string): void {
    this.forget(connector);
  }

  /** The connector is deleted: its series go too. */
  forget(connector: string): void {
    this.#runs.forget(connector);
    this.#verifiedRows.remove({ connector });
    this.forgetVerified(connector);
  }

  async text(): Promise<string> {
    await this.#refresh();
    return this.#registry.metrics();
  }

  /** The same as data. */
  async collect(): Promise<readonly PromMetric[]> {
    await this.#refresh();
    return await this.#registry.getMetricsAsJSON();
  }

  async #refresh(): Promise<void> {
    const { board, threads, replicaId: replica, slotOf } = this.context;
    const held = this.#held(board.phases());
    this.#runs.setGauges(new Map(held.map(([id]) => [id, { ...board.measurement(id), slot: slotOf(id) }])));
    const gauges = [this.#connectors, this.#status, this.#holder, this.#setAside, this.#loopDelay];
    for (const gauge of gauges) gauge.reset();
    // First: one of them may have been taken since this replica looked.
    for (const connector of this.context.leftAlone()) this.#holder.set({ connector, replica }, 0);
    for (const [connector, phase] of held) {
      this.#connectors.inc(phase);
      this.#status.set({ connector, ...phase }, 1);
      this.#holder.set({ connector, replica }, 1);
    }
    for (const [connector, count] of this.#held(board.countSetAside()))
      this.#setAside.set({ connector }, count);
    for (const { connector, thread, loopDelayMs } of threads.loopDelays()) {
      this.#loopDelay.set({ connector: connector ?? "", thread }, loopDelayMs / 1000);
    }
    this.#memory.set(process.memoryUsage.rss());
    await Promise.all([this.#askReadiness(), this.#countTasks(), this.#countParked(), this.#countReceipts()]);
  }

  async #askReadiness(): Promise<void> {
    const { ready } = await this.context.health.readiness();
    this.#ready.set(ready ? 1 : 0);
  }

  async #countParked(): Promise<void> {
    const totals = await withStoreTimeout(
      this.context.countParked().catch(() => null),
      null,
    );
    for (const gauge of [this.#parkedMessages, this.#parkedBytes]) gauge.reset();
    if (!totals) return;
    // A connector without any is reported as zero, so that an alert sees the first one.
    const held = this.#held(this.context.board.phases()).map(([connector]) => connector);
    for (const connector of new Set([...held, ...totals.keys()])) {
      const { messages, bytes } = totals.get(connector) ?? { messages: 0, bytes: 0 };
      this.#parkedMessages.set({ connector }, messages);
      this.#parkedBytes.set({ connector }, bytes);
    }
  }

  async #countReceipts(): Promise<void> {
    const totals = await withStoreTimeout(
      this.context.countReceipts().catch(() => null),
      null,
    );
    this.#receiptsBytes.reset();
    for (const [connector, bytes] of totals ?? []) this.#receiptsBytes.set({ connector }, bytes);
  }

  /** Without those whose run is ending because another replica holds them now. */
  #held<Value>(byConnector: ReadonlyMap<string, Value>): (readonly [string, Value])[] {
    return [...byConnector].filter(([connector]) => this.context.holds(connector));
  }

  /** While the store does not answer, the other metrics are still reported. */
  async #countTasks(): Promise<void> {
    const query = this.context.countTasks().catch(() => null);
    const counts = await withStoreTimeout(query, null);
    // Not before the answer: somebody else may be collecting meanwhile.
    this.#tasks.reset();
    // A state without tasks is reported as zero, so that an alert sees the first task in it.
    if (counts) for (const state of taskStates) this.#tasks.set({ state }, counts.get(state) ?? 0);
  }

  #gauge<const Label extends string>(name: string, help: string, labelNames: readonly Label[]): Gauge<Label> {
    return new Gauge({ name, help, labelNames, registers: [this.#registry] });
  }
}
