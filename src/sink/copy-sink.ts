// The contract of a sink that takes copies of tables.
//
// A copy is a list of chunks: ranges of a table's pages, or the whole table. Each chunk is read as of a point of the source's log.
//
// - The stream `runs`: the sink applies the table's changes and records which keys they touch. A chunk is taken once the stream
//   has passed its point. The sink leaves out rows whose keys were touched since `start`: the stream brought something newer.
// - The stream `waits`: the sink takes chunks ahead of the stream. Changes from before a chunk's point come later; the sink
//   leaves them out, or applies them once more.
// - A copy's life: begun, started, each chunk taken and settled, finished.
// - Durability: `take` makes a chunk durable where the stream waits, `settle` where it runs. `finish` makes the copy durable. Chunks that are
//   durable are not copied again, in this run or the next, while the table stays what it was.
// - Failure: after a call that failed the copy is disposed of. `table_changed` says that another attempt begins anew.
// - Stopping: `stop` ends the calls of one copy, the sink's own signal all of them.

import type { TupleForm } from "../change/change-batch.ts";
import type { CopyPart } from "../change/copy-part.ts";
import type { Lsn } from "../change/lsn.ts";
import type { PageRange } from "../change/page-range.ts";
import type { TableShape } from "../change/relation.ts";

/**
 * - `initial`: the table's first copy. The sink has nothing of it but what an interrupted first copy left.
 * - `merge`: rows replace those of the same key; others stay.
 * - `replace`: as `merge`, and rows that the copy did not bring are removed, where the sink can.
 */
export type CopyMode = "initial" | "merge" | "replace";

/** Whether the stream goes on while a copy is made. */
export type StreamDuring = "runs" | "waits";

export interface CopySink {
  /**
   * Begins a copy, or goes on with one that was begun. Call it between two batches. `stream`: whether the stream can go on meanwhile. If the
   * returned copy says `waits`, it must not. From here on a table that gets its first copy while the stream runs has its changes applied.
   */
  begin(table: TableShape, mode: CopyMode, stream: StreamDuring, stop: AbortSignal): Promise<TableCopy>;

  /** Which form `takeRows` wants. */
  rowsForm(table: TableShape): TupleForm;

  /**
   * Replaces the rows of these keys by those given. Call it between two batches, after `flush`: the rows may be ahead of the stream. `absent`: what
   * becomes of rows whose keys are not among those given, at a sink that can remove rows; left out: they stay, as the stream brings their removal.
   */
  takeRows(rows: CopyChunk, absent?: "stay" | "removed"): Promise<void>;
}

export interface TableCopy extends AsyncDisposable {
  /**
   * `waits`: every call comes between two batches of the stream, or where there is none. `stands`: begin it anew, as a copy that the stream waits
   * for, where the stream stands exactly at a point, and copy as of that: what it brought later from before would break the sink's constraints.
   */
  readonly stream: StreamDuring | "stands";

  /**
   * Sets the low watermark: chunks leave out keys that the stream touches from here on. Call it between two batches; where the stream runs, only
   * once it has passed a point that was taken after `begin`. `isDivided`: the table is large, and is to come in ranges.
   */
  start(isDivided: boolean): Promise<StartedCopy>;

  /** Takes one chunk; several at once where there are ranges. Where the stream runs, it has passed the chunk's point. */
  take(chunk: CopyChunk): Promise<void>;

  /** Where the stream runs, between two batches: writes a bounded piece of what was taken. Returns what is left. */
  settle(): Promise<Settled>;

  /**
   * Between two batches, when all chunks are settled: does a bounded piece of what is left. `all` and `incomplete`: the copy is made, durably.
   * `incomplete`: `prepare` names rows of it that the stream brought in part alone. They are to be complete before the next batch. `kept`: rows that
   * are gone at the source are still there, as rows of other tables refer to them: copy it again as `replace` behind those tables.
   */
  finish(phase?: TellPhase): Promise<Finished>;
}

/**
 * What the sink still does with a table once all of its rows are read. `Writing`: they wait in a table of their own, and are written into this one.
 * `Finishing`: they are in this one, and its keys and indexes are made. A sink that does neither for long tells nothing.
 */
export type CopyPhase = "Writing" | "Finishing";

/** `rowsWritten`: null where nobody knows. */
export type TellPhase = (phase: CopyPhase, rowsWritten: number | null) => void;

export interface StartedCopy {
  /** In which the chunks are to come. */
  readonly form: TupleForm;
  /** Null: the sink takes the whole table as one chunk. */
  readonly ranges: DurableRanges | null;
}

/** Ranges that are durable at the sink, and how many rows there are in them. */
export interface DurableRanges {
  readonly done: readonly PageRange[];
  readonly rows: number;
  /** Ranges that an interrupted run sent in part. Cut them the same way, so that an idempotent sink repeats its requests. */
  readonly begun?: readonly PageRange[];
}

/** `locked`: somebody holds the sink's table. Try again in a moment. */
export type Settled = "all" | "more" | "locked";

export type Finished = Settled | "incomplete" | "kept";

export interface CopyChunk {
  readonly table: TableShape;
  /** Absent: the whole table. */
  readonly part?: CopyPart;
  readonly form: TupleForm;
  /** As `TableRows` has them. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** How many rows were read so far: for people, without a look into the chunks. */
  readonly rowsRead: () => number;
  /** The chunk's point: changes that were committed before it are in the rows. */
  readonly lsn: Lsn;
  /** When that was, in microseconds since 1970-01-01 UTC; a later point has a later time. */
  readonly timeUs: bigint;
  /** Called now and then with the rows and bytes that were taken so far. */
  readonly progress: (rows: number, bytes: number) => void;
  /** Called where the whole table is one chunk. */
  readonly phase?: TellPhase;
}
