// The contract of a message format: how one row of a change is written, as JSON or in Avro. An encoder is compiled once for a relation. It knows
// nothing of requests, keys or sending.

import type { Lsn } from "../../change/lsn.ts";
import type { ByteWriter } from "./values/byte-writer.ts";
import type { TupleView } from "./values/tuple-view.ts";

/** What a row says happened. */
export type RowOperation = "create" | "update" | "delete" | "read" | "truncate";

/** What is known of a row in addition to its tuples. One object is reused for every row. */
export interface RowContext {
  operation: RowOperation;
  version: number;
  /** The old tuple holds only the replica identity's columns. */
  oldIsKey: boolean;
  /** Microseconds since 1970-01-01 UTC. */
  commitTimeUs: number;
  commitLsn: Lsn;
  /** Of the change itself in the source's log, in bytes from the log's beginning; 0: not known. */
  place: number;
  xid: number;
  /** Which row of its transaction it is, and which of its table's; 0: they are not counted. */
  totalOrder: number;
  tableOrder: number;
  /** Of a snapshot: whether the row is of a copy. */
  snapshot: boolean;
}

export interface RowEncoder {
  /** Where in the JSON of a row its columns stand: names of members, from outside in. Of several places the first that has them. Absent: Avro. */
  readonly columnsAt?: readonly (readonly string[])[];
  /**
   * Writes one JSON object, or one Avro record behind its header, at the end of `out`. `before` and `after` stand on the old and the new tuple in
   * `arena`, or are empty; a delete has no `after`, a truncate neither. What is unchanged in `after` is not in `before`
   * either.
   */
  writeRow(out: ByteWriter, arena: Uint8Array, before: TupleView, after: TupleView, row: RowContext): void;
}
