// What a connector's run has measured over its attempts: each counts from zero, and knows nothing of what the one before had in hand.

import type { RunProgress } from "../../connector/status.ts";
import type { RunMetrics } from "../threads/messages.ts";

type Counts = Pick<RunMetrics, "rowsIn" | "bytesIn" | "rowsDurable" | "bytesDurable"> & {
  readonly requests: number;
};

const nothing: Counts = { rowsIn: 0, bytesIn: 0, rowsDurable: 0, bytesDurable: 0, requests: 0 };

export class RunMeasurement {
  /** Of the attempts before this one. */
  #before: Counts = nothing;
  #last: RunMetrics | null = null;
  /** Whether the stream of the attempt under way has taken up: then it says itself what is behind. */
  #isStreaming = false;
  /** As it was known last. */
  #lagBytes: number | null = null;
  /** Commit time of the oldest change that was seen and is not known to be durable. */
  #behindSinceMs: number | null = null;

  /** Another run counts from zero; what is behind is so still. */
  runBegan(): void {
    this.#before = nothing;
    this.#last = null;
    this.#isStreaming = false;
  }

  attemptBegan(): void {
    const { requests, ...none } = nothing;
    if (this.#last) {
      this.#before = total(this.#before, this.#last);
      this.#last = { ...this.#last, ...none, webhook: { ...this.#last.webhook, requests } };
    }
    this.#isStreaming = false;
  }

  attemptEnded(): void {
    this.#isStreaming = false;
  }

  measured(metrics: RunMetrics): void {
    const { snapshot, latencyMs } = this.#last ?? metrics;
    this.#lagBytes = metrics.lagBytes ?? this.#lagBytes;
    this.#last = {
      ...metrics,
      lagBytes: this.#lagBytes,
      // An attempt that copies nothing has the copy of an earlier one behind it.
      snapshot: metrics.snapshot.tables > 0 ? metrics.snapshot : { ...snapshot, copying: 0 },
      latencyMs: metrics.latencyMs ?? latencyMs,
    };
    this.#isStreaming = metrics.resumeLsn !== null;
    if (this.#isStreaming) this.#behindSinceMs = metrics.behindSinceMs;
  }

  /** Over all attempts of the run; null: nothing was measured yet. */
  get total(): RunMetrics | null {
    if (!this.#last) return null;
    const { requests, ...counts } = total(this.#before, this.#last);
    return { ...this.#last, ...counts, webhook: { ...this.#last.webhook, requests } };
  }

  /**
   * For how long the oldest change that was seen has been waiting to be durable; 0: none waits; null: it is not known, as nothing
   * streams. The source's clock and ours may differ.
   */
  lagSeconds(nowMs: number): number | null {
    if (this.#behindSinceMs !== null) return Math.max(0, nowMs - this.#behindSinceMs) / 1000;
    return this.#isStreaming ? 0 : null;
  }
}

function total(before: Counts, { webhook, ...attempt }: RunMetrics): Counts {
  return {
    rowsIn: before.rowsIn + attempt.rowsIn,
    bytesIn: before.bytesIn + attempt.bytesIn,
    rowsDurable: before.rowsDurable + attempt.rowsDurable,
    bytesDurable: before.bytesDurable + attempt.bytesDurable,
    requests: before.requests + webhook.requests,
  };
}

/** As the API shows it. */
export function toProgress(metrics: RunMetrics, lagSeconds: number | null): RunProgress {
  const { snapshot } = metrics;
  return {
    rows_in: metrics.rowsIn,
    rows_durable: metrics.rowsDurable,
    bytes_durable: metrics.bytesDurable,
    requests: metrics.webhook.requests,
    snapshot: {
      tables: snapshot.tables,
      tables_done: snapshot.tablesDone,
      rows: snapshot.rows,
      bytes: snapshot.bytes,
      estimated_rows: snapshot.estimatedRows,
    },
    lag_bytes: metrics.lagBytes ?? 0,
    lag_seconds: lagSeconds,
    latency_ms: metrics.latencyMs,
    resume_lsn: metrics.resumeLsn,
  };
}
