// The contract of a source: where changes come from. How its tables are read is table-source.ts's; how changes are streamed,
// change-stream.ts's.
//
// - Order: batches hold whole changes in commit order, each transaction's in the order it made them.
// - Repetition: after a restart a stream begins at a checkpoint. Changes that are done under it are left out; the others come again
//   with the same positions.
// - Acknowledgement: the source forgets nothing before `acknowledge` has named it.
// - Memory: a stream holds at most `maxBufferedBytes` that nobody has taken. Then it stops reading its socket.
// - Stopping: the signal ends every call with `signal.reason`; disposing closes every connection.
// - Errors are MillraceErrors whose `retry` tells whether another attempt may help.

import type { TakenBatches, TupleForm } from "../change/change-batch.ts";
import type { Checkpoint } from "../change/checkpoint.ts";
import type { AskComputed } from "../change/computed-columns.ts";
import type { TableShape } from "../change/relation.ts";
import type { Term } from "../connector/term.ts";
import type { MillraceError } from "../errors/millrace-error.ts";
import type { ChangeStream } from "./change-stream.ts";
import type { KeySource } from "./key-source.ts";
import type { SourceState } from "./source-state.ts";
import type { SnapshotPoint, TableSource } from "./table-source.ts";
import type { VerifySource } from "./verify-source.ts";

export interface Source extends TableSource, AsyncDisposable {
  /** The database that its tables are in. */
  readonly database: string;
  /** Absent: its rows cannot be compared with a sink's. */
  readonly verification?: VerifySource;
  /** Absent: its rows cannot be chosen by their keys. */
  readonly keys?: KeySource;

  /**
   * The selected tables as they are now. It changes nothing at the source. `coverage` says which of a table's changes were not published up to
   * now. `ask`: generated columns that the sink computes are not sent; absent: it computes none. Throws `source_is_standby` when a standby
   * answers that the connector does not stream from. Throws `table_unavailable` when a named table is missing before the connector has begun;
   * a source that only copies tells that by `absent`.
   */
  tables(ask?: AskComputed): Promise<readonly TableShape[]>;

  /** The tables that were there and not taken when `tables` was called last. */
  excluded(): readonly ExcludedTable[];

  /** What a run that only copies ends with, once it has copied the rest: a named table was not found. Null: all are there. */
  absent(): MillraceError | null;

  /**
   * Publishes the changes of the tables that `tables` returned last, and of no others. Call it when the sink has recorded which
   * copies no longer count: the source forgets the time before. A point that is taken afterwards has every change that was made
   * before. Throws `table_locked` when somebody has locked one of them: then nothing was altered.
   */
  publish(): Promise<void>;

  /**
   * Resolves when the selected tables may no longer be what `tables` returned last: one was created, dropped, renamed, or given
   * another key. It looks now and then, and only while the server has logged something. Rejects when the signal fires.
   */
  tablesChanged(): Promise<void>;

  /**
   * Brings the shapes that these tables have now to their place in the stream, as changes of kind `shape`: for tables that may not
   * change for long. Call it while a stream is open; a table that is locked comes later.
   */
  announceShapes(tables: readonly TableShape[]): Promise<void>;

  /**
   * Makes the slot and returns the point where it begins; call `tables` first. It drops a slot of the same name: only for when
   * nothing was ever delivered from it, or everything is to be copied again. It waits for transactions of others, until `stop`.
   */
  createSlot(stop: AbortSignal): Promise<SnapshotPoint>;

  /** Throws `source_replaced`, `source_behind` unless its log has `checkpoint`. Returns that log's name, which a failover changes. */
  checkLog(checkpoint: Checkpoint): Promise<string>;

  /** Throws `slot_missing`, `slot_invalidated`, `slot_ahead`, `source_is_standby`, … unless the slot leads on from `checkpoint`. */
  checkSlot(checkpoint: Checkpoint): Promise<void>;

  /** What the source keeps of its log for this connector; null: it keeps none. */
  keptLog(): Promise<KeptLog | null>;

  /**
   * Streams the changes that are not done under `checkpoint`. One stream at a time. Throws `transaction_given_up` where a part of a transaction
   * in progress cannot go on; a stream without such parts brings it again.
   */
  stream(checkpoint: Checkpoint, form: TupleForm, taken?: TakenBatches): Promise<ChangeStream>;
}

/** A table that the connector does not take, by its OID; and why, for people. */
export interface ExcludedTable {
  readonly id: number;
  readonly schema: string;
  readonly name: string;
  readonly reason: string;
}

export interface KeptLog {
  readonly bytes: number;
  /** What may be written until the log is in danger of being removed; 0: it was removed; null: the server has no limit. */
  readonly safeBytes: number | null;
  /** What somebody should do about it; null: it is not much. */
  readonly warning: string | null;
}

/** What a source is made with, apart from its configuration. */
export interface SourceContext {
  readonly connectorId?: string;
  readonly signal: AbortSignal;
  /** Names the one service that may run this connector. What bears it at the source is an earlier run's, unless its term is higher. */
  readonly owner?: string | undefined;
  /** Whoever meets what a higher term has made, or is told of it by the state, ends with `lease_lost`. */
  readonly term?: Term | undefined;
  readonly state: SourceState;
  readonly events: SourceEvents;
  /** The sink renames columns, and adds them with their value, as the source did: nobody has to be warned of it. */
  readonly sinkFollowsShapes: boolean;
  /** The stream's batches have about this size; absent: one that is worth a transaction at a database. */
  readonly batchBytes?: number | undefined;
  /** The connector has begun: a named table that is missing is gone, and was not mistyped. `resumes`: it is to go on from another slot. */
  readonly isBegun?: boolean;
  readonly resumes?: boolean;
}

/** Who drops what a connector has made at its source. `confirm` rejects once a replica of a higher term may have made anything there. */
export interface DroppedBy extends Pick<SourceContext, "owner" | "term"> {
  confirm?(): Promise<void>;
}

export interface SourceEvents {
  /** Something people should know that does not stop the run. The last reason of a topic counts. Null: it is over. */
  warning(topic: string, reason: string | null, commands?: readonly string[]): void;
}
