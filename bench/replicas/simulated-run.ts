// An attempt of a run without source and sink: it reports, and stores what a real one of its kind stores, at the same rate. What the
// state and the main thread have to do with it is real. `bun run cost:replicas` compares its rates with those of real runs.

import { noReceipts } from "../../src/connector/receipts.ts";
import { sharedInterval } from "../../src/measure/shared-interval.ts";
import type { TableReport } from "../../src/pipeline/table-states.ts";
import { deliveryKind, type RunAttempt, type RunEvents } from "../../src/runtime/run/connector-run.ts";
import type { RunRequest } from "../../src/runtime/threads/messages.ts";
import { runMetrics } from "../../test/support/pipeline/run-metrics.ts";

/** The ids of connectors that carry changes begin with it. */
export const busyPrefix = "busy";
/** Transactions that a busy connector carries. */
export const changesPerSecond = 10;

/** A worker pulses and reports so often. */
const reportMs = 1_000;
const noParts: ReadonlyMap<string, string> = new Map();

const lsn = (n: number) => `0/${(0x1500000 + 96 * n).toString(16).toUpperCase()}`;

/** The record of a webhook sink with one table. */
function sinkRecord(version: number): string {
  const position = { commit_lsn: lsn(version), ordinal: 0 };
  return JSON.stringify({
    format: 2,
    checkpoint: { resume_lsn: position.commit_lsn, partial: null, last_version: String(version) },
    log: "7412345678901234567/1",
    origin: { lsn: lsn(0), version: "1" },
    window_ends: [position],
    reached: position,
  });
}

export class SimulatedRun implements RunAttempt {
  readonly ended: Promise<null>;
  readonly #end = Promise.withResolvers<null>();
  readonly #intervals = new DisposableStack();
  readonly #isBusy: boolean;
  readonly #table: TableReport;
  #changes = 0;
  #isSaving = false;

  constructor(
    private readonly request: RunRequest,
    private readonly events: RunEvents,
  ) {
    const { id, sink } = request.connector;
    this.#isBusy = id.startsWith(busyPrefix);
    this.#table = {
      id: 1,
      schema: "public",
      name: `t_${id}`,
      state: "Streaming",
      reason: null,
      commands: [],
      copy: null,
      rowsIn: 0,
      lastChangeMs: null,
      history: false,
    };
    this.ended = this.#end.promise;
    void this.#begin(deliveryKind(sink));
  }

  cancelTask(): void {}

  offerTask(): void {}

  stop(): void {
    this.cut();
  }

  cut(): void {
    this.#intervals[Symbol.dispose]();
    this.#end.resolve(null);
  }

  async #begin(kind: "webhook" | "kafka" | null): Promise<void> {
    const { events, request } = this;
    const status = { start: {} };
    events.status("Connector", { state: { initialize: { sub_state: "connecting", commands: [] } }, status });
    try {
      await events.saveRecord(
        "source",
        JSON.stringify({ objects: "made", log: "7412345678901234567/1" }),
        noParts,
        noReceipts,
      );
      if (kind) await events.saveRecord("sink", sinkRecord(0), noParts, noReceipts);
      if (!request.initialized) await events.initialized();
    } catch {
      // Its lease is over.
      return;
    }
    if (this.#intervals.disposed) return;
    events.status("Source", {
      state: { realtime: { name: request.connector.id } },
      status: { heartbeat: {} },
    });
    events.tables({ isFirst: true, tables: [this.#table], gone: [] });
    this.#report();
    this.#intervals.use(
      sharedInterval(reportMs, () => {
        events.pulse("replication", 0);
        if (kind) events.pulse(kind, 0);
        if (this.#isBusy) this.#report();
      }),
    );
    if (this.#isBusy) this.#changeSteadily(kind !== null);
  }

  /** Changes of different connectors come at different moments, and so do their saves. */
  #changeSteadily(isRecorded: boolean): void {
    const everyMs = 1_000 / changesPerSecond;
    let timer = setTimeout(() => {
      timer = setInterval(() => this.#change(isRecorded), everyMs);
    }, Math.random() * everyMs);
    this.#intervals.defer(() => clearInterval(timer));
  }

  #change(isRecorded: boolean): void {
    this.#changes += 1;
    // A request is answered, and the next one waits for its record to be stored.
    if (!isRecorded || this.#isSaving) return;
    this.#isSaving = true;
    this.events
      .saveRecord("sink", sinkRecord(this.#changes), noParts, noReceipts)
      .catch(() => {})
      .finally(() => {
        this.#isSaving = false;
      });
  }

  #report(): void {
    const rows = this.#changes;
    this.events.metrics(
      runMetrics({
        rowsIn: rows,
        bytesIn: rows * 40,
        rowsDurable: rows,
        bytesDurable: rows * 40,
        lagBytes: 0,
        latencyMs: rows === 0 ? null : 5,
        resumeLsn: lsn(rows),
        // At most moments a change is on its way to a busy sink.
        behindSinceMs: rows === 0 ? null : Date.now(),
      }),
    );
    if (rows === 0) return;
    const table = { ...this.#table, rowsIn: rows, lastChangeMs: Date.now() };
    this.events.tables({ isFirst: false, tables: [table], gone: [] });
  }
}
