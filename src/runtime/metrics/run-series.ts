// Measurements of runs as Prometheus series. The labels are the connector, a request's result, and an error code.

import { Counter, Gauge, type Registry } from "prom-client";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { rowBounds, secondBounds } from "../../measure/bounds.ts";
import { addedSince, type Distribution } from "../../measure/distribution.ts";
import type { MeasuredRun } from "../status/status-board.ts";
import type { RunMetrics } from "../threads/messages.ts";
import type { KafkaCounts } from "./kafka-counter.ts";
import { TransferredHistogram } from "./transferred-histogram.ts";

type CounterReading = readonly [help: string, read: (metrics: RunMetrics) => number];
type KafkaReading = readonly [help: string, read: (counts: KafkaCounts) => number];
/** A connector that does not run may have a slot all the same. */
export type Gauged = Partial<MeasuredRun>;
/** Undefined or null: not known. */
type GaugeReading = readonly [help: string, read: (metrics: Gauged) => number | null | undefined];
type HistogramReading = readonly [
  help: string,
  bounds: readonly number[],
  read: (metrics: RunMetrics) => Distribution,
];

/** Counters that continue over runs, by metric name. */
const counters: Readonly<Record<string, CounterReading>> = {
  millrace_rows_in_total: ["Changes that came from sources.", (m) => m.rowsIn],
  millrace_bytes_in_total: ["Bytes of changes that came from sources.", (m) => m.bytesIn],
  millrace_rows_durable_total: ["Rows that are durable at sinks.", (m) => m.rowsDurable],
  millrace_bytes_durable_total: ["Bytes of rows that are durable at sinks.", (m) => m.bytesDurable],
  millrace_requests_total: ["Webhook requests that were answered with 2xx.", (m) => m.webhook.requests],
  millrace_webhook_sent_bytes_total: [
    "Bytes of bodies that were sent to webhooks, compressed where they are, repetitions too.",
    (m) => m.webhook.sentBytes,
  ],
};

/** The same of connectors to Kafka. */
const kafkaCounters: Readonly<Record<string, KafkaReading>> = {
  millrace_kafka_messages_total: [
    "Messages that brokers have taken, tombstones and records of checkpoints too.",
    (m) => m.messages,
  ],
  millrace_kafka_sent_bytes_total: [
    "Bytes of batches that brokers have taken, compressed where they are.",
    (m) => m.bytes,
  ],
  millrace_kafka_retries_total: ["Tries to send messages after the first one.", (m) => m.retries],
};

const fencedCode: ErrorCode = "kafka_fenced";

const gauges: Readonly<Record<string, GaugeReading>> = {
  millrace_lag_bytes: [
    "Bytes of the source's log that are not acknowledged yet. Absent while nothing runs.",
    (m) => m.lagBytes,
  ],
  millrace_lag_seconds: [
    "For how long the oldest commit that was seen has been waiting to be durable at the sink; 0: none waits. Absent while nothing streams and none is known.",
    (m) => m.lagSeconds,
  ],
  millrace_slot_retained_bytes: [
    "Bytes of its log that the source keeps for the connector's slot.",
    (m) => m.slot?.retainedBytes,
  ],
  millrace_slot_safe_bytes: [
    "safe_wal_size of the slot: what may be written until it is in danger of being lost; 0: it is lost. Absent without a limit.",
    (m) => m.slot?.safeBytes,
  ],
  millrace_snapshot_rows: ["Rows copied by the initial copy.", (m) => m.snapshot?.rows],
  millrace_snapshot_bytes: ["Bytes copied by the initial copy.", (m) => m.snapshot?.bytes],
  millrace_snapshot_estimated_rows: ["Rows that the initial copy expects.", (m) => m.snapshot?.estimatedRows],
  millrace_snapshot_tables: ["Tables of the initial copy.", (m) => m.snapshot?.tables],
  millrace_snapshot_tables_done: [
    "Tables of the initial copy that are durable.",
    (m) => m.snapshot?.tablesDone,
  ],
};

const histograms: Readonly<Record<string, HistogramReading>> = {
  millrace_batch_rows: ["Changes in a batch.", rowBounds, (m) => m.batches.rows],
  millrace_write_seconds: [
    "For the sink to take a batch over; it waits there while too much is on its way.",
    secondBounds,
    (m) => m.batches.write,
  ],
  millrace_flush_seconds: [
    "From when a batch was handed to the sink until it was durable there.",
    secondBounds,
    (m) => m.batches.durable,
  ],
  millrace_latency_seconds: [
    "From the last commit of a batch at the source until it was durable at the sink.",
    secondBounds,
    (m) => m.batches.latency,
  ],
};

export class RunSeries {
  readonly #counters: readonly (readonly [Counter<"connector">, CounterReading])[];
  readonly #gauges: readonly (readonly [Gauge<"connector">, GaugeReading])[];
  readonly #histograms: readonly (readonly [TransferredHistogram, HistogramReading])[];
  readonly #results: Counter<"connector" | "result">;
  readonly #attempts: Counter<"connector">;
  readonly #failures: Counter<"connector" | "code">;
  readonly #kafkaCounters: readonly (readonly [Counter<"connector">, KafkaReading])[];
  readonly #commits: TransferredHistogram;
  readonly #fencings: Counter<"connector">;
  /** The last measurement of each connector's attempt: the next one adds the difference. */
  readonly #last = new Map<string, RunMetrics>();
  /** The label values of each connector's series. */
  readonly #codes = new Map<string, Set<string>>();
  readonly #seenResults = new Map<string, Set<string>>();

  constructor(registry: Registry) {
    const registers = [registry];
    const labelNames = ["connector"] as const;
    this.#counters = Object.entries(counters).map(([name, reading]) => [
      new Counter({ name, help: reading[0], labelNames, registers }),
      reading,
    ]);
    this.#gauges = Object.entries(gauges).map(([name, reading]) => [
      new Gauge({ name, help: reading[0], labelNames, registers }),
      reading,
    ]);
    this.#histograms = Object.entries(histograms).map(([name, reading]) => {
      const histogram = new TransferredHistogram(name, reading[0], reading[1]);
      registry.registerMetric(histogram as unknown as Counter);
      return [histogram, reading];
    });
    this.#results = new Counter({
      name: "millrace_webhook_requests_total",
      help: "Webhook requests by what came of them: the status, or the system's word for why there was no answer.",
      labelNames: ["connector", "result"],
      registers,
    });
    this.#attempts = new Counter({
      name: "millrace_run_attempts_total",
      help: "Attempts of runs: each connects to source and sink again.",
      labelNames,
      registers,
    });
    this.#failures = new Counter({
      name: "millrace_run_failures_total",
      help: "Attempts of runs that ended with an error, by its code.",
      labelNames: ["connector", "code"],
      registers,
    });
    this.#kafkaCounters = Object.entries(kafkaCounters).map(([name, reading]) => [
      new Counter({ name, help: reading[0], labelNames, registers }),
      reading,
    ]);
    this.#commits = new TransferredHistogram(
      "millrace_kafka_commit_seconds",
      "From when brokers had all messages of a transaction until it was committed; its count is that of transactions.",
      secondBounds,
    );
    registry.registerMetric(this.#commits as unknown as Counter);
    this.#fencings = new Counter({
      name: "millrace_kafka_fencings_total",
      help: "Attempts of runs that ended because another producer had begun under the same transactional id.",
      labelNames,
      registers,
    });
  }

  /** An attempt begins and counts from zero. */
  began(connector: string): void {
    this.#last.delete(connector);
    this.#attempts.inc({ connector });
  }

  failed(connector: string, code: string): void {
    this.#failures.inc({ connector, code });
    addLabel(this.#codes, connector, code);
    if (code === fencedCode) this.#fencings.inc({ connector });
  }

  /** A connector's run has reported measurements. */
  measured(connector: string, metrics: RunMetrics): void {
    const last = this.#last.get(connector);
    for (const [counter, [, read]] of this.#counters) {
      counter.inc({ connector }, Math.max(0, read(metrics) - (last ? read(last) : 0)));
    }
    for (const [histogram, [, , read]] of this.#histograms) {
      histogram.add(connector, addedSince(last && read(last), read(metrics)));
    }
    for (const [result, count] of Object.entries(metrics.webhook.results)) {
      this.#results.inc({ connector, result }, Math.max(0, count - (last?.webhook.results[result] ?? 0)));
      addLabel(this.#seenResults, connector, result);
    }
    if (metrics.kafka) this.#produced(connector, metrics.kafka, last?.kafka ?? null);
    this.#last.set(connector, metrics);
  }

  #produced(connector: string, counts: KafkaCounts, last: KafkaCounts | null): void {
    for (const [counter, [, read]] of this.#kafkaCounters)
      counter.inc({ connector }, Math.max(0, read(counts) - (last ? read(last) : 0)));
    this.#commits.add(connector, addedSince(last?.commits, counts.commits));
    // So that it is there before the first one.
    this.#fencings.inc({ connector }, 0);
  }

  /** Replaces all gauges: another run may not have them. */
  setGauges(measured: ReadonlyMap<string, Gauged>): void {
    for (const [gauge, [, read]] of this.#gauges) {
      gauge.reset();
      for (const [connector, metrics] of measured) {
        const value = read(metrics) ?? null;
        if (value !== null) gauge.set({ connector }, value);
      }
    }
  }

  /** The connector is deleted: its series go too. */
  forget(connector: string): void {
    this.#last.delete(connector);
    for (const result of this.#seenResults.get(connector) ?? []) this.#results.remove({ connector, result });
    for (const code of this.#codes.get(connector) ?? []) this.#failures.remove({ connector, code });
    for (const seen of [this.#seenResults, this.#codes]) seen.delete(connector);
    this.#attempts.remove({ connector });
    for (const [counter] of this.#counters) counter.remove({ connector });
    for (const [counter] of this.#kafkaCounters) counter.remove({ connector });
    this.#commits.remove(connector);
    this.#fencings.remove({ connector });
    for (const [gauge] of this.#gauges) gauge.remove({ connector });
    for (const [histogram] of this.#histograms) histogram.remove(connector);
  }
}

function addLabel(seen: Map<string, Set<string>>, connector: string, label: string): void {
  const labels = seen.get(connector) ?? new Set();
  seen.set(connector, labels.add(label));
}
