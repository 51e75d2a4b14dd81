// The contract of a sink: where changes go. How it takes copies of tables is copy-sink.ts's; what it tells meanwhile, sink-events.ts's.
//
// - Order: changes of one row reach the sink in the order of the stream.
// - Durability: `durable` reports a checkpoint only when everything before it survives the death of the service, the sink and the
//   machine. `open` returns the last one.
// - Repetition: changes that follow the durable checkpoint may come again after a restart, with the same positions. A transactional
//   sink has them once; an idempotent one sends them with the same keys.
// - Back-pressure: `write` returns once the batch was taken over. It waits while too much is in flight.
// - Failure: a failed call leaves the checkpoint where it was. The sink is then disposed of, and another one opened.
// - Stopping: the signal ends every call; nothing is half-applied.

import type { ChangeBatch, TupleForm } from "../change/change-batch.ts";
import type { Checkpoint } from "../change/checkpoint.ts";
import type { RowKey } from "../change/copy-part.ts";
import type { TableShape } from "../change/relation.ts";
import type { ChangedParts, SavedRecord } from "../connector/saved-record.ts";
import type { CopySink } from "./copy-sink.ts";
import type { SinkEvents, UnreadableTable } from "./sink-events.ts";

export interface Sink extends AsyncDisposable {
  /** Connects and tells where the sink stands. Null: nothing was ever begun, or it was forgotten. */
  open(): Promise<Checkpoint | null>;

  /** Makes durable where the stream begins. Called once in a connector's life, before any row. */
  begin(checkpoint: Checkpoint): Promise<void>;

  /** Makes durable that the checkpoint's LSN is an address in this log. Called between `open` and the first row of a run. */
  goOnIn(log: string): Promise<void>;

  /**
   * Forgets checkpoint and copies: the connector begins anew. What was delivered stays until the next copy of its table takes its
   * place, where the sink can remove rows. `keepsShapes`: tables keep their ids, so that renamed and altered columns can be followed.
   */
  forget(keepsShapes: boolean): Promise<void>;

  /**
   * Looks at the tables that the stream will bring: all that are selected. A copy of a table that is no longer among them, or that
   * is another table by now, counts no more: the sink missed changes of it. Changes of `unreadable` tables come before their copies: a
   * sink that cannot have them so leaves them out, durably, up to the point of the copy.
   */
  prepare(
    tables: readonly TableShape[],
    forms: readonly TupleForm[],
    unreadable?: readonly UnreadableTable[],
  ): Promise<PreparedTables>;

  readonly copies: CopySink;

  /** Writes a batch. The batch's memory is not used any more once it returns. */
  write(batch: ChangeBatch): Promise<void>;

  /**
   * Returns when everything written is durable, but for the beginning of a transaction where the sink writes those whole. Not to be
   * called while changes are a repetition: an idempotent sink would cut them otherwise than before.
   */
  flush(): Promise<void>;
}

export interface PreparedTables {
  /** In which of the forms the sink wants the stream. */
  readonly form: TupleForm;
  /** Tables whose copy the sink does not hold, and can take now. */
  readonly missing: readonly TableShape[];
  /** They are to be copied one after the other, as `missing` has them: rows of later ones refer to rows of earlier ones. */
  readonly isOrdered?: boolean;
  /** The sink can be given parts of transactions in progress. */
  readonly takesInProgress?: boolean;
  /**
   * Tables that have another shape at the sink: the stream is to say from where on they have this one. Such a change may come again
   * or be lost with the run; an idempotent sink, which must repeat itself, asks for none.
   */
  readonly behind: readonly TableShape[];
  /** Changes of tables that are missing were delivered before: no copy may come ahead of what the stream repeats. */
  readonly hasChanges?: boolean;
  /** Rows that the sink lacks though it has a copy of their table: copy them by `takeRows` before the stream goes on. */
  readonly incomplete?: readonly IncompleteRows[];
}

export interface IncompleteRows {
  readonly table: TableShape;
  readonly keys: readonly RowKey[];
}

/** What a sink is made with, apart from its configuration. */
export interface SinkContext {
  readonly connectorId: string;
  /**
   * Names the one service that may run this connector. What bears both names at the sink and is not this run's is left of
   * an earlier one, and may be ended when it stands in the way.
   */
  readonly owner?: string | undefined;
  readonly signal: AbortSignal;
  /** For sinks that cannot keep their checkpoint with their rows. */
  readonly checkpoints: CheckpointStore;
  /** What `prepare` finds missing is copied. Without copies a table that missed changes would not come back. */
  readonly makesCopies: boolean;
  /** The attempt before this one ended because rows were refused: it is worth some time to tell which. */
  readonly isAfterRefusal?: boolean;
  readonly events: SinkEvents;
}

/** A sink's own record in the state store. */
export interface CheckpointStore {
  load(): Promise<SavedRecord | null>;
  /** Replaces the text, and changes the parts with it: all or nothing, durable on return. */
  save(text: string, parts?: ChangedParts): Promise<void>;
}
