// The contract of a sink that can be sent rows again.
//
// - Order: rows are sent once the stream has passed the point that they were read as of, with a version above all that were given out, and
//   below all that follow. Rows that the stream has touched since the point are left out: it brings something newer.
// - Repetition: within one attempt a request that is sent again keeps its idempotency key. An attempt that begins anew sends rows with higher
//   versions, under other keys.
// - What the sink knows of the table's copy stays as it is.

import type { RowKey } from "../change/copy-part.ts";
import type { TableShape } from "../change/relation.ts";
import type { TableCopy } from "./copy-sink.ts";

export interface ReplayOf {
  /** The same for each attempt. */
  readonly id: string;
  /** The rows of these keys; null: of the whole table. */
  readonly keys: readonly RowKey[] | null;
}

export interface ReplaySink {
  /**
   * Begins between two batches, or goes on where the table is sent whole. Throws `unsupported_kind` where rows of this table cannot be sent
   * again. `stop` ends the calls of this replay.
   */
  begin(table: TableShape, replay: ReplayOf, stop: AbortSignal): Promise<TableReplay>;
}

/** As a copy that is made while the stream goes on. */
export interface TableReplay extends TableCopy {
  /**
   * When all chunks are settled: rows that were left out, and that the stream has brought in part alone. Take them as one more chunk, as of a
   * later point, until there are none. Then the replay can be finished.
   */
  left(): Promise<readonly RowKey[]>;
}
