// The contract of a source whose tables are read: for copies, as of points of its log.

import type { TupleForm } from "../change/change-batch.ts";
import type { CopyPart } from "../change/copy-part.ts";
import type { Lsn } from "../change/lsn.ts";
import type { TableSize } from "../change/page-range.ts";
import type { TableShape } from "../change/relation.ts";
import type { MillraceError } from "../errors/millrace-error.ts";

export interface TableSource {
  /** Whether the tables may no longer be what `Source.tables` returned last. It costs much less than that. Absent: nobody can tell. */
  areTablesChanged?(): Promise<boolean>;

  /**
   * A consistent point now: what is committed before its `lsn` is in it, and nothing else. It waits for running transactions; `stop`
   * ends that with its reason.
   */
  snapshotPoint(stop: AbortSignal): Promise<SnapshotPoint>;

  /** Why the table cannot be read now; null: nothing is known to stand in the way. It costs far less than a copy. */
  readDenial(table: TableShape): Promise<MillraceError | null>;

  /** How large the table is; null: it can only be copied whole. */
  measure(table: TableShape): Promise<TableSize | null>;

  /**
   * Reads a table as of `point`, or a part of it. Ranges as of one point divide the rows. Ranges as of different points may miss a row that
   * moved, or have it twice: the stream brings that row. Several reads may run at once. Throws `table_changed` when the table is not what
   * `tables` returned.
   */
  readTable(table: TableShape, point: SnapshotPoint, form: TupleForm, part?: CopyPart): TableRows;

  /**
   * The sink holds a copy of the table durably. So the source may forget what changed rows before the copy without an event. `since`: it may
   * forget only what came before this point, as rows that the stream brought from there on count as newer than the copied ones.
   */
  copied(table: TableShape, since?: SnapshotPoint): void;
}

/** A snapshot of the source that stays readable until it is disposed of. It keeps nothing of the log. Disposing twice does no harm. */
export interface SnapshotPoint extends AsyncDisposable {
  /** Transactions whose commit record starts before it are in the snapshot, the others are not. */
  readonly lsn: Lsn;
  /** When it was taken, in microseconds since 1970-01-01 UTC, by the source's clock. */
  readonly timeUs: bigint;
  /** Names the log that `lsn` is an address in. */
  readonly log: string;
}

/** Rows of one table, as COPY TO STDOUT writes them in the asked form. */
export interface TableRows {
  /** Chunks of any size. Each is the reader's until it asks for the next one. Leaving the loop early cancels the reading. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** How many rows were read so far. */
  rowsRead(): number;
}
