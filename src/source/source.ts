// The contract of a source: where changes come from.
//
// - Order: batches hold whole changes in commit order, each transaction's in the order it made them.
// - Repetition: after a restart a stream begins at a checkpoint; changes that are done under it are left out,
//   the others come again with the same positions.
// - Acknowledgement: the source forgets nothing before `acknowledge` has named it. It is told on a timer of the
//   stream's own, whatever the reader is doing.
// - Memory: a stream holds at most `maxBufferedBytes` that have not been taken, then it stops reading its socket.
// - Stopping: the signal ends every call with `signal.reason`; disposing closes every connection.
// - Errors are MillraceErrors whose `retry` tells whether another attempt may help.

import type { ChangeBatch, TupleForm } from "../change/change-batch.ts";
import type { Checkpoint } from "../change/checkpoint.ts";
import type { CopyPart } from "../change/copy-part.ts";
import type { Lsn } from "../change/lsn.ts";
import type { TableSize } from "../change/page-range.ts";
import type { TableShape } from "../change/relation.ts";
import type { MillraceError } from "../errors/millrace-error.ts";
import type { SourceNotes } from "./source-notes.ts";

export interface Source extends AsyncDisposable {
  /** The one that its tables are in. */
  readonly database: string;

  /**
   * The selected tables as they are now. Nothing changes at the source: which of their changes were not published up to now
   * is in their coverage. Throws `table_unavailable` when one that was named is missing
   * before the connector has begun, and the source does not tell it by `absent`.
   */
  tables(): Promise<readonly TableShape[]>;

  /** What a run ends with that only copies, once it has copied the rest: `tables` found nothing of a name. Null: all are there. */
  absent(): MillraceError | null;

  /**
   * Publishes the changes of the tables that `tables` told last, and of no others. To be called when the sink has noted
   * which copies no longer count: what the source says of the time before is gone then. A point that is taken afterwards
   * has every change that was made before. Throws `table_locked` when somebody has locked one of them: then nothing was altered.
   */
  publish(): Promise<void>;

  /**
   * Resolves when the selected tables may no longer be what `tables` told last: one was created, dropped, renamed, given
   * another key. Looks now and then, and only while the server has logged something. Rejects when the signal fires.
   */
  tablesChanged(): Promise<void>;

  /**
   * Brings the shapes that these tables have now to their place in the stream, as changes of kind `shape`: for tables that
   * may not change for long. Call it while a stream is open; a table that cannot be had now comes later.
   */
  announceShapes(tables: readonly TableShape[]): Promise<void>;

  /**
   * Makes the slot and returns the point where it begins; call `tables` first. A slot of the same name is dropped:
   * only for when nothing was ever delivered from it, or everything is to be copied again. It waits for transactions of
   * others; `stop` ends that, with its reason.
   */
  createSlot(stop: AbortSignal): Promise<SnapshotPoint>;

  /**
   * Throws `source_replaced` and `source_behind` unless `checkpoint` is a place in the source's log. Returns the name of the log that
   * the stream goes on in, which is another one behind a failover.
   */
  checkLog(checkpoint: Checkpoint): Promise<string>;

  /** Throws `slot_missing`, `slot_invalidated`, `slot_ahead`, … unless the slot leads on from `checkpoint`. */
  checkSlot(checkpoint: Checkpoint): Promise<void>;

  /**
   * A consistent point now, beside the stream: what is committed before `lsn` is in it, and nothing else. It waits as
   * `createSlot` does.
   */
  snapshotPoint(stop: AbortSignal): Promise<SnapshotPoint>;

  /** Why the table cannot be read now; null: nothing is known to stand in the way. It costs far less than a copy. */
  readDenial(table: TableShape): Promise<MillraceError | null>;

  /** How large the table is; null: it can only be copied whole. */
  measure(table: TableShape): Promise<TableSize | null>;

  /**
   * Reads one table as of `point`, or a part of it: each row that the point has is in one range of all. Several may run at once. Throws `table_changed` when the table is not what it was when `tables` told of it.
   */
  copyTable(table: TableShape, point: SnapshotPoint, form: TupleForm, part?: CopyPart): TableCopy;

  /**
   * The sink has durably what `copyTable` read of the table: what no change event told of it is mended, as of `since`, an earlier
   * point, where rows that the stream has brought from there on were taken for newer than the copied ones.
   */
  copied(table: TableShape, since?: SnapshotPoint): void;

  /** What the source keeps of its log for this connector; null: it keeps none. */
  keptLog(): Promise<KeptLog | null>;

  /**
   * Streams the changes that are not done under `checkpoint`. One at a time. `takesInProgress`: parts of transactions in progress may
   * be among the batches. Throws `transaction_given_up` where they cannot; another stream, without them, has it then.
   */
  stream(checkpoint: Checkpoint, form: TupleForm, takesInProgress?: boolean): Promise<ChangeStream>;
}

/** A snapshot of the source that stays readable until it is disposed of, which may be done again. */
export interface SnapshotPoint extends AsyncDisposable {
  /** Transactions whose commit record starts before it are in the snapshot, the others are not. */
  readonly lsn: Lsn;
  /** When it was taken, in microseconds since 1970-01-01 UTC, by the source's clock. */
  readonly timeUs: bigint;
  /** Names the log that `lsn` is an address in. */
  readonly log: string;
}

export interface KeptLog {
  readonly bytes: number;
  /** What may be written until it is in danger of being removed; null: the server has no limit. */
  readonly safeBytes: number | null;
  /** What somebody should do about it; null: it is not much. */
  readonly warning: string | null;
}

/** One table's rows, as COPY TO STDOUT writes them in the asked form, in chunks of any size. */
export interface TableCopy {
  readonly table: TableShape;
  readonly form: TupleForm;
  /** A chunk is the reader's until it asks for the next one. Leaving the loop early cancels the copy. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** How many rows have been read so far. */
  rowsRead(): number;
}

export interface ChangeStream extends AsyncDisposable {
  /**
   * All that has arrived since the last call, in whole transactions unless one is larger than the buffer.
   * Waits while there is nothing new, and of what the server had logged before the stream began for a moment more, so that small
   * transactions come together. Throws when the connection fails.
   */
  next(): Promise<ChangeBatch>;
  /**
   * Resolves when everything that the server had logged before the stream began has been handed out: from then on nothing
   * is a repetition. Never rejects.
   */
  readonly caughtUp: Promise<void>;
  /**
   * Somebody waits for what was committed before `lsn`, a place that the server's log has come to: as soon as the server has said
   * that all of it is sent, a batch says so, an empty one if need be.
   */
  reach(lsn: Lsn): void;
  /** Everything before `resumeLsn` is durable at the sink. Never goes back. */
  acknowledge(resumeLsn: Lsn): void;
  /** How far the server's log is ahead of what has been acknowledged, for people. */
  lag(): StreamLag;
}

/** What a source is made with, beside its configuration. */
export interface SourceContext {
  readonly signal: AbortSignal;
  /**
   * Names the one service that may run this connector. What bears the name at the source and is not this run's is left of
   * an earlier one, and may be ended.
   */
  readonly owner?: string | undefined;
  readonly notes: SourceNotes;
  readonly events: SourceEvents;
  /** The sink renames columns, and adds them with their value, as the source did: nobody has to be warned of it. */
  readonly sinkFollowsShapes: boolean;
  /** The connector has begun: a table that was named is gone, and was not mistyped. */
  readonly isBegun?: boolean;
}

export interface SourceEvents {
  /** Something people should know that does not stop the run: the last of its topic counts. Null: it is over. */
  warning(topic: string, reason: string | null): void;
}

export interface StreamLag {
  /** Bytes of WAL between where the server's log is known to end and the last acknowledgement; 0 where nothing of it is for us. */
  readonly bytes: number;
  /** Something that is for us is not acknowledged yet, and the server has not said for a while how far its log has come. */
  readonly isInTheDark: boolean;
  /** Commit time of the last change that arrived, microseconds since 1970-01-01 UTC; null before the first. */
  readonly lastCommitTimeUs: bigint | null;
}
