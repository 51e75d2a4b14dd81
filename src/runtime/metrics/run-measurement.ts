// A connector's measurements over all attempts of a run. Each attempt counts from zero, and does not know what the one
// before had not finished.

import type { RunProgress } from "../../connector/status.ts";
import type { RunMetrics } from "../threads/messages.ts";

type Counts = Pick<RunMetrics, "rowsIn" | "bytesIn" | "rowsDurable" | "bytesDurable"> & {
  readonly requests: number;
};

const nothing: Counts = { rowsIn: 0, bytesIn: 0, rowsDurable: 0, bytesDurable: 0, requests: 0 };

export class RunMeasurement {
  /** Sums over the earlier attempts. */
  #before: Counts = nothing;
  #last: RunMetrics | null = null;
  /** The current attempt is streaming: it reports itself what is behind. */
  #isStreaming = false;
  /** The last known value. */
  #lagBytes: number | null = null;
  /** Commit time of the oldest change that was received and is not known to be durable. */
  #behindSinceMs: number | null = null;
  /** The last reported position. */
  #resumeLsn: string | null = null;
  /** Where the attempt before stopped with a change that waited; null: none did, or the stream has brought it again. */
  #stoodAt: string | null = null;

  /** A new run counts from zero. What is behind stays behind. */
  runBegan(): void {
    this.#before = nothing;
    this.#last = null;
    this.#stops();
  }

  attemptBegan(): void {
    const { requests, ...none } = nothing;
    if (this.#last) {
      this.#before = total(this.#before, this.#last);
      this.#last = { ...this.#last, ...none, webhook: { ...this.#last.webhook, requests } };
    }
    this.#stops();
  }

  attemptEnded(): void {
    this.#stops();
  }

  measured(metrics: RunMetrics): void {
    const { snapshot, latencyMs } = this.#last ?? metrics;
    this.#isStreaming = metrics.resumeLsn !== null;
    const isYetToCome = this.#isYetToCome(metrics);
    if (this.#isStreaming && !isYetToCome) {
      this.#stoodAt = null;
      this.#behindSinceMs = metrics.behindSinceMs;
    }
    const { lagBytes } = metrics;
    if (lagBytes !== null) this.#lagBytes = Math.max(lagBytes, isYetToCome ? (this.#lagBytes ?? 0) : 0);
    this.#resumeLsn = metrics.resumeLsn ?? this.#resumeLsn;
    this.#last = {
      ...metrics,
      lagBytes: this.#lagBytes,
      // An attempt that copies nothing keeps the numbers of the earlier copy.
      snapshot: metrics.snapshot.tables > 0 ? metrics.snapshot : { ...snapshot, copying: 0 },
      latencyMs: metrics.latencyMs ?? latencyMs,
    };
  }

  /** A stream that has just begun knows of nothing that waits, until the source has sent it again. */
  #isYetToCome({ behindSinceMs, resumeLsn }: RunMetrics): boolean {
    return this.#stoodAt !== null && behindSinceMs === null && resumeLsn === this.#stoodAt;
  }

  #stops(): void {
    this.#isStreaming = false;
    if (this.#behindSinceMs !== null) this.#stoodAt = this.#resumeLsn;
  }

  /** Over all attempts of the run; null: nothing was measured yet. */
  get total(): RunMetrics | null {
    if (!this.#last) return null;
    const { requests, ...counts } = total(this.#before, this.#last);
    return { ...this.#last, ...counts, webhook: { ...this.#last.webhook, requests } };
  }

  /**
   * How long the oldest received change has been waiting to be durable; 0: none waits; null: not known, because nothing
   * is streaming. The clocks of the source and of this machine may differ.
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

/** In the API's form. */
export function toProgress(metrics: RunMetrics, lagSeconds: number | null): RunProgress {
  const { snapshot, resume } = metrics;
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
      ...(snapshot.phase && { phase: snapshot.phase }),
    },
    ...(resume && {
      resume: {
        tables: resume.tables,
        tables_done: resume.tablesDone,
        table: resume.table,
        rows: resume.rows,
        estimated_rows: resume.estimatedRows,
      },
    }),
    lag_bytes: metrics.lagBytes ?? 0,
    lag_seconds: lagSeconds,
    latency_ms: metrics.latencyMs,
    resume_lsn: metrics.resumeLsn,
  };
}
