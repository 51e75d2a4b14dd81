// The contract of a sink: where changes go. How it takes copies of tables is copy-sink.ts's; what it tells meanwhile, sink-events.ts's.
//
// - Order: changes of one row reach the sink in the order of the stream.
// - Durability: `durable` reports a checkpoint only when everything before it survives the death of the service, the sink and the
//   machine. `open` returns the last one.
// - Repetition: changes that follow the durable checkpoint may come again after a restart, with the same positions. A transactional
//   sink has them once; an idempotent one sends them with the same keys.
// - Back-pressure: `write` returns once the batch was taken over. It waits while too much is in flight.
// - Failure: a failed call leaves the checkpoint where it was. The sink is then disposed of, and another one opened.
// - Stopping: the signal ends every call; nothing is half-applied. Disposing waits for what is under way, and reports what of it has become
//   durable. A second time does nothing.

import type { ChangeBatch, TakenBatches, TupleForm } from "../change/change-batch.ts";
import type { Checkpoint } from "../change/checkpoint.ts";
import type { ComputedColumns } from "../change/computed-columns.ts";
import type { RowKey } from "../change/copy-part.ts";
import type { TableShape } from "../change/relation.ts";
import type { ReceiptBatches } from "../connector/receipts.ts";
import type { ChangedParts, SavedRecord } from "../connector/saved-record.ts";
import type { Term } from "../connector/term.ts";
import type { CopySink } from "./copy-sink.ts";
import type { ReplaySink } from "./replay-sink.ts";
import type { SinkEvents, UnreadableTable } from "./sink-events.ts";
import type { VerifySink } from "./verify-sink.ts";

export interface Sink extends AsyncDisposable {
  /** Connects and tells where the sink stands, and what it may have `reached`. Null: nothing was ever begun, or it was forgotten. */
  open(): Promise<Checkpoint | null>;

  /** Makes durable where the stream begins. Called once in a connector's life, before any row. */
  begin(checkpoint: Checkpoint): Promise<void>;

  /**
   * Makes durable that the checkpoint's LSN is an address in the log of this name: a promoted standby continues in another one. Called between
   * `open` and the first row of a run.
   */
  goOnIn(log: string): Promise<void>;

  /**
   * Forgets checkpoint and copies: the connector begins anew. What was delivered stays until the next copy of its table takes its
   * place, where the sink can remove rows. `keepsShapes`: tables keep their ids, so that renamed and altered columns can be followed.
   */
  forget(keepsShapes: boolean): Promise<void>;

  /**
   * Takes the tables that the stream will bring: all that are selected. The sink voids copies of tables that are no longer among them, or are
   * other tables by now: it missed their changes. The stream brings changes of `unreadable` tables before these have a copy. A sink that cannot
   * apply them without the copy leaves them out, durably, up to the copy's point.
   */
  prepare(
    tables: readonly TableShape[],
    forms: readonly TupleForm[],
    unreadable?: readonly UnreadableTable[],
  ): Promise<PreparedTables>;

  /**
   * Which columns of `TableShape.generated` the sink can compute itself. Call it between two batches. Then `prepare` gets the tables with
   * those alone, and makes the columns. `sourceVersion`: see `AskComputed`. Absent: the sink computes none.
   */
  computed?(tables: readonly TableShape[], sourceVersion: number): Promise<ComputedColumns>;

  readonly copies: CopySink;
  /** Absent: nobody can read what was delivered. */
  readonly verification?: VerifySink;
  /** Absent: nothing is sent here that could be sent again. */
  readonly replays?: ReplaySink;

  /** Writes a batch. The batch's memory is not used any more once it returns. */
  write(batch: ChangeBatch): Promise<void>;

  /**
   * Returns when all that was written is durable. A sink that commits transactions whole may keep back the beginning of one. Call it before
   * the first batch, or once the stream repeats nothing (`ChangeStream.caughtUp`): amid repeated changes an idempotent sink would cut its
   * requests at other places than before.
   */
  flush(): Promise<void>;
}

/** A sink that cannot alter tables returns `form`, `missing` and an empty `behind`. */
export interface PreparedTables extends TakenBatches {
  /** In which of the forms the sink wants the stream. */
  readonly form: TupleForm;
  /** Tables whose copy the sink does not hold, and can take now. */
  readonly missing: readonly TableShape[];
  /** Copy them one after the other, as `missing` lists them: rows of later ones refer to rows of earlier ones. */
  readonly isOrdered?: boolean;
  /**
   * Tables whose shape at the sink is an older one. The source announces in the stream from where on they have this one. The announcement may
   * come twice, or be lost with the run. So an idempotent sink, which must repeat itself, lists none.
   */
  readonly behind: readonly TableShape[];
  /** The stream may repeat changes of missing tables that were delivered before. So their copies must not run ahead of it. */
  readonly hasChanges?: boolean;
  /** Rows that the sink lacks though it has a copy of their table: copy them by `takeRows` before the stream goes on. */
  readonly incomplete?: readonly IncompleteRows[];
  /** OIDs of tables whose rows may be out of date, see `VerifySink.resume`. */
  readonly unproved?: ReadonlySet<number>;
  /** OIDs of tables whose superseded rows the sink keeps. Once they are copied, `prepare` does what is left to do for that. */
  readonly withHistory?: ReadonlySet<number>;
}

export interface IncompleteRows {
  readonly table: TableShape;
  readonly keys: readonly RowKey[];
}

/** What a sink is made with, apart from its configuration. */
export interface SinkContext {
  readonly connectorId: string;
  /** Names the one service that may run the connector. A session with this name and the connector's id is an earlier run's, if its term is not higher. */
  readonly owner?: string | undefined;
  /** A sink that can tell refuses what a run of a lower term writes, with `lease_lost`. */
  readonly term?: Term | undefined;
  readonly signal: AbortSignal;
  /** For sinks that cannot keep their checkpoint with their rows. */
  readonly checkpoints: CheckpointStore;
  /** The run copies what `prepare` returns as missing. False (skip_snapshots): no copy follows, so the sink must not give up changes for one. */
  readonly makesCopies: boolean;
  /** The attempt before this one ended because rows were refused. The sink may take longer now, to find them and name them. */
  readonly isAfterRefusal?: boolean;
  readonly events: SinkEvents;
}

/** A sink's own record in the state store. */
export interface CheckpointStore {
  load(): Promise<SavedRecord | null>;
  /** Replaces the text, and changes the parts and stores receipts with it: all or nothing, durable on return. */
  save(text: string, parts?: ChangedParts, receipts?: ReceiptBatches): Promise<void>;
}
