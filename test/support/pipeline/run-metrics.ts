// What a run that has done nothing yet measures.

import { BatchMeasures } from "../../../src/pipeline/batch-measures.ts";
import type { RunMetrics } from "../../../src/runtime/threads/messages.ts";

export function runMetrics(change: Partial<RunMetrics>): RunMetrics {
  const counted = { rowsIn: 0, bytesIn: 0, rowsDurable: 0, bytesDurable: 0 };
  const snapshot = { tables: 0, tablesDone: 0, copying: 0, rows: 0, bytes: 0, estimatedRows: 0 };
  const gauges = {
    snapshot,
    lagBytes: null,
    latencyMs: null,
    behindSinceMs: null,
    resumeLsn: null,
    slot: null,
    counted: null,
  };
  const webhook = { requests: 0, results: {}, sentBytes: 0 };
  return {
    ...counted,
    ...gauges,
    webhook,
    kafka: null,
    batches: new BatchMeasures().distributions(),
    ...change,
  };
}
