// The contract of a sink: where changes go.
//
// - Order: changes of one row reach the target in the order of the stream.
// - Durability: a checkpoint is reported by `durable` only when everything before it will survive the death of
//   the service, the sink and the machine. What `open` returns is what was durable last.
// - Repetition: changes that follow the durable checkpoint may come again after a restart, with the same
//   positions. A transactional sink has them once; an idempotent one sends them with the same keys.
// - Back-pressure: `write` returns once the batch has been taken over, and waits while too much is in flight.
// - Failure: a failed call leaves the checkpoint where it was. The sink is then disposed of, and another opened.
// - Stopping: the signal ends every call; nothing is half-applied.

import type { ChangeBatch, TupleForm } from "../change/change-batch.ts";
import type { Checkpoint } from "../change/checkpoint.ts";
import type { CopyPart, RowKey } from "../change/copy-part.ts";
import type { Lsn } from "../change/lsn.ts";
import type { PageRange } from "../change/page-range.ts";
import type { Relation, TableShape } from "../change/relation.ts";
import type { ChangedParts, SavedRecord } from "../connector/saved-record.ts";
import type { MillraceError } from "../errors/millrace-error.ts";

export interface Sink extends AsyncDisposable {
  /** Connects and tells where the sink stands; null when nothing was ever begun, or it was forgotten. */
  open(): Promise<Checkpoint | null>;

  /** Makes durable where the stream begins. Called once in a connector's life, before any row. */
  begin(checkpoint: Checkpoint): Promise<void>;

  /** Makes durable that the checkpoint's LSN is an address in this log. Called between `open` and the first row of a run. */
  goOnIn(log: string): Promise<void>;

  /**
   * Forgets checkpoint and copies: the connector begins anew. What it has delivered stays, until the next initial copy
   * of its table takes its place, where the sink can remove rows. `keepsShapes`: tables have the ids that they had, so that what
   * was renamed, dropped or given another type since can be followed.
   */
  forget(keepsShapes: boolean): Promise<void>;

  /**
   * Looks at the tables that the stream will bring: all that are selected. A copy of a table that is no longer among them,
   * or that is another table of the same name by now, counts as none from here on: changes of it were missed.
   * Changes of tables that are `unreadable` come before their copies: a sink that cannot have them so leaves them out, durably,
   * up to the point of the copy.
   */
  prepare(
    tables: readonly TableShape[],
    forms: readonly TupleForm[],
    unreadable?: readonly UnreadableTable[],
  ): Promise<PreparedTables>;

  /** In which form it wants a copy of this table. */
  copyForm(table: TableShape): TupleForm;

  /**
   * Begins a copy of a table in ranges of its pages. `goesOn`: ranges that it holds as of earlier points count still, as the stream
   * that follows brings what lies between. Null: it takes the table whole.
   */
  beginCopy(table: TableShape, goesOn: boolean): Promise<BegunCopy | null>;

  /** Takes a copy of a table, or of a range of its pages; returns when it, and that it was made, is durable. */
  copyTable(request: CopyRequest): Promise<void>;

  /** It holds all ranges of the table: they take their place together. Returns when that, and that the copy was made, is durable. */
  endCopy(table: TableShape): Promise<void>;

  /**
   * Begins a copy of a table, which is made while batches are written. To be called between two batches: from here on the sink
   * keeps in mind which of the table's rows the stream touches, or, of an `initial` copy, keeps the changes themselves where it cannot
   * have them before it. Null: it takes a copy of this table between two batches alone, by `copyTable`. `stop` ends what is under way in it.
   */
  beginBeside(table: TableShape, mode: CopyRequest["mode"], stop: AbortSignal): Promise<CopyBeside | null>;

  /**
   * Where the stream has to come to, and the run to look at the tables once more, before all rows of the table are as of one place:
   * some were copied as of a later one, or are owed. Null: they are, or the sink keeps none.
   */
  aheadOf(relation: Relation): Lsn | null;

  /** The batch's memory is used no more once it returns: the caller gives it back. */
  write(batch: ChangeBatch): Promise<void>;

  /**
   * Returns when everything written is durable, but for the beginning of a transaction where the sink writes those whole. Not while
   * changes are a repetition: a sink that sends them with the same keys would cut them otherwise than it did.
   */
  flush(): Promise<void>;
}

export interface PreparedTables {
  /** Which of the forms the sink wants the stream in. */
  readonly form: TupleForm;
  /** Tables whose initial copy it does not hold, and can take now. */
  readonly missing: readonly TableShape[];
  /** They are to be copied one after the other, as `missing` has them: rows of later ones refer to rows of earlier ones. */
  readonly isOrdered?: boolean;
  /** It can be given parts of transactions in progress. */
  readonly takesInProgress?: boolean;
  /**
   * Tables that have another shape at the sink: it wants to be told by the stream from where on they have this one. A shape
   * that is told may come again or be lost with the run; an idempotent sink, which must repeat itself, asks for none.
   */
  readonly behind: readonly TableShape[];
  /** It has had changes of tables that are missing. They come again as they were, so that no copy may come before them: it is to be made beside the stream. */
  readonly hasChanges?: boolean;
  /** Rows that the sink lacks though it has a copy of their table: they are to be copied before the stream goes on. */
  readonly owed?: readonly OwedRows[];
}

export interface OwedRows {
  readonly table: TableShape;
  readonly keys: readonly RowKey[];
}

/** Ranges of a copy that the sink holds durably, and how many rows there are in them. */
export interface HeldRanges {
  readonly ranges: readonly PageRange[];
  readonly rows: number;
}

/** A copy that is made in ranges. */
export interface BegunCopy extends HeldRanges {
  /** In which it wants them. */
  readonly form: TupleForm;
  /** Ranges that had begun: what comes of them again is to come as it did. */
  readonly inHand?: readonly PageRange[];
}

/**
 * A copy of a table that is made beside the stream: `take` rows as of points that were taken behind its beginning, `compare` them once
 * the stream has passed all points, and `settle` until nothing is left. Any call may throw `table_changed`: then it is to begin anew.
 * Disposing of it before the end forgets what it has taken, but for ranges, which the next copy of the table may go on with, in this
 * run or another; what was settled stays, and is right. Of an `initial` copy what is missing then is to be made, or begun, before the
 * next batch, or by the next run.
 */
export interface CopyBeside extends AsyncDisposable {
  /** In which it wants the rows. */
  readonly form: TupleForm;
  /** It takes rows only once the stream has passed their point. */
  readonly takesAfterPoint: boolean;
  /**
   * It is made between two batches, though not in one go: each call, its disposal too, is to be made there, and ranges are to be small.
   * Where the run has ended it is left as it is.
   */
  readonly takesInTurn: boolean;
  /** What the stream brings of the table meanwhile is laid aside, until `settle` applies it: a failure there ends the run. */
  readonly laysAside: boolean;
  /** Of an `initial` copy: it is made when those are that were begun before it, as its rows may refer to theirs. */
  readonly waitsForOthers: boolean;
  /**
   * Of an `initial` copy that does not lay aside what the stream brings: the stream has passed a point of when it was begun. What the
   * stream touches from here on was changed behind that. Between two batches, before anything else is asked.
   */
  watch?(): Promise<void>;
  /**
   * Present: it takes the table whole, as of one point, before all that the stream brings of the table from behind the point, which waits for
   * that. To be asked between two batches, before `take`. False: the stream has brought some of it; another point is to be taken.
   */
  readonly goBefore?: ((point: CopyPoint) => Promise<boolean>) | undefined;
  /** It is to come in ranges: those that it holds already. Null: it takes the table whole. To be asked before `form`. */
  divide(): Promise<HeldRanges | null>;
  /** Takes the whole table, or a range of it; several ranges at once. While batches are written. */
  take(request: CopyRequest): Promise<void>;
  /** All rows are taken, and the stream has passed every point: finds out what they come to. While batches are written. */
  compare(): Promise<void>;
  /** Writes a bounded piece of what they come to. Between two batches. */
  settle(): Promise<SettledPiece>;
}

/** What a copy is as of; see `CopyRequest`. */
export type CopyPoint = Pick<CopyRequest, "lsn" | "timeUs">;

export interface SettledPiece {
  readonly isMore: boolean;
  /** Somebody holds the sink's table: nothing was written, and it is to be tried again in a moment. */
  readonly isHeld: boolean;
  /**
   * Rows of which the stream has brought a part alone: before the next batch they are to be copied by their keys, by `copyTable`, and
   * `settle` is to be called again, which tells others.
   */
  readonly owed: readonly RowKey[];
}

/** A table that could not be copied, as the source does not let it be read. */
export interface UnreadableTable {
  readonly table: TableShape;
  /** For people. */
  readonly reason: string;
  /** Its copy is to be tried again now: it may be `missing`. */
  readonly isDue: boolean;
}

export interface CopyRequest {
  readonly table: TableShape;
  /**
   * A range of the copy that was begun, of which several may be on their way at once; or rows that are owed, which replace what has
   * their keys. Absent: the whole table.
   */
  readonly part?: CopyPart;
  readonly form: TupleForm;
  /** As `TableCopy` has them. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** How many rows the chunks hold that were read so far: for people, without a look into the chunks. */
  readonly rowsRead: () => number;
  /** The consistent point of the copy: changes committed before it are in it. */
  readonly lsn: Lsn;
  /** When that was; a later point has a later time. */
  readonly timeUs: bigint;
  /**
   * - `initial`: the table's first copy. The sink holds nothing of it but what an interrupted first copy left.
   * - `merge`: rows replace those of the same key; others stay.
   * - `replace`: as `merge`, and rows that the copy did not bring are removed, where the sink can.
   */
  readonly mode: "initial" | "merge" | "replace";
  /** Called now and then with the rows and bytes that were taken so far. */
  readonly progress: (rows: number, bytes: number) => void;
}

/** What a sink is made with, beside its configuration. */
export interface SinkContext {
  readonly connectorId: string;
  /**
   * Names the one service that may run this connector. What bears both names at the sink and is not this run's is left of
   * an earlier one, and may be ended when it stands in the way.
   */
  readonly owner?: string | undefined;
  readonly signal: AbortSignal;
  /** For sinks that cannot keep their checkpoint beside their rows. */
  readonly checkpoints: CheckpointStore;
  /** What `prepare` finds missing is copied. Without copies a table that has missed changes would not come back. */
  readonly makesCopies: boolean;
  /** The attempt before this one ended because rows were refused: it is worth some time to tell which, and to take them with care. */
  readonly isAfterRefusal?: boolean;
  readonly events: SinkEvents;
}

export interface SinkEvents {
  /** Called in rising order. `rows` and `bytes`: what became durable since the last call. */
  durable(checkpoint: Checkpoint, rows: number, bytes: number): void;
  /** Something people should know that does not stop the run: the last of its topic counts. Null: it is over. */
  warning(topic: string, reason: string | null): void;
  /** The sink cannot go on, though no call is waiting. Calls made from here on fail with the same error. */
  failed(error: MillraceError): void;
  /** All the tables that are set aside now. */
  setAside(tables: readonly SetAsideTable[]): void;
  /** A table that is set aside can go on, or needs something else, or a table may be behind its source's: `prepare` is to be called, between two batches. */
  mended(): void;
  /**
   * Rows are owed from `lsn` on: a batch is to tell that the stream has come there, though it has nothing more to bring. Without a stream it
   * is for the next one.
   */
  awaits(lsn: Lsn): void;
  /** The sink tries again by itself. Null: it succeeded. */
  retrying(attempt: number | null, reason: string): void;
}

/**
 * A table that needs a change which the sink may not make, or that cannot be read. Its changes are left out, durably, until the cause
 * is gone; then it is copied. The others go on.
 */
export interface SetAsideTable {
  /** At the source. */
  readonly schema: string;
  readonly name: string;
  /** Changes committed from here on are left out; null: they are delivered. */
  readonly since: Lsn | null;
  readonly reason: string;
  /** SQL to run at the sink, each statement without a semicolon. */
  readonly commands: readonly string[];
}

/** A sink's own record in the state store. */
export interface CheckpointStore {
  load(): Promise<SavedRecord | null>;
  /** Replaces the text, and changes the parts with it: all or nothing, durable on return. */
  save(text: string, parts?: ChangedParts): Promise<void>;
}
