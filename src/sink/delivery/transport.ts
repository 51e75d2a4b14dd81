// The contract of a transport of messages: it sends the rows that a session hands to it, those of one row in their order. It knows neither
// the stream nor copies. A transport either reports each message as delivered (HTTP), or commits what it was given together with the
// record (Kafka's transactions).

import type { Checkpoint, Position } from "../../change/checkpoint.ts";
import type { Lsn } from "../../change/lsn.ts";
import type { Relation } from "../../change/relation.ts";
import type { OpenRequest, RowQuestion } from "../../connector/receipts.ts";
import type { MillraceError } from "../../errors/millrace-error.ts";
import type { CompiledTable } from "../format/compiled-table.ts";
import type { CheckpointStore } from "../sink.ts";
import type { PlannedRow } from "./stream/request-plan.ts";
import type { TransactionBoundary } from "./stream/transaction-counts.ts";

/** Where rows go, in the order in which they are added. */
export interface Outlet {
  /** The row's memory is not used any more once it returns. */
  addRow(table: CompiledTable, row: PlannedRow): void;
  /** All that was added is sent, though no more may come to fill a message. */
  seal(): void;
  readonly hasCapacity: boolean;
  /** Resolves when there is capacity, or when nothing is sent any more. */
  untilCapacity(): Promise<void>;
}

export interface StreamOutlet extends Outlet {
  addBoundary(boundary: TransactionBoundary): void;
  /** A copy took a version. What is added from here on is sent once the record that has it is durable. */
  tookVersion(): void;
}

/** Called with the rows and bytes of what is on its way. Returns what to call once that is delivered. */
export type Sent = (rows: number, bytes: number) => () => void;

export interface StreamOutletOptions {
  readonly sent: Sent;
  /** Resolves when the record as it is now is durable. */
  readonly save: () => Promise<void>;
  /** Records how far the stream has been received. */
  readonly reach: () => void;
  /** The record could not be saved. */
  readonly failed: (error: unknown) => void;
}

export interface ChunkOutletOptions {
  readonly sent: Sent;
  /** The stream goes on meanwhile, and must not wait for these rows. */
  readonly isIncremental: boolean;
  /** Rows of one message at most; infinite: as the transport likes. */
  readonly maxRows: number;
}

export interface Transport {
  /** Tables that the stream will bring: what can be made ready for many at once. */
  prepare(relations: readonly Relation[]): Promise<void>;
  /** What is needed of a table before its rows can be added. */
  compile(relation: Relation): CompiledTable | Promise<CompiledTable>;
  stream(options: StreamOutletOptions): StreamOutlet;
  chunk(options: ChunkOutletOptions): Outlet;
  /** Where the record is kept. */
  readonly store: CheckpointStore;
  /**
   * Not null: rows count as delivered when they are added, and the store's `save` commits them with the record, all or nothing. It takes what
   * was added before the call. A commit may wait for the end of a transaction of the source, or of a copy's chunk, for so many ms.
   */
  readonly commitWithinMs: number | null;
  /** Bytes of changes that are reported, or committed, together at most, by now; absent: as many as memory has room for. */
  readonly windowBytes?: number;
  /** Saves of the record have receipts too. */
  readonly keepsReceipts?: boolean;
  /** Nothing is sent any more. */
  readonly isOver: boolean;
  /**
   * Rows of the stream up to there are durable. `areCopiesOpen`: ranges of a copy are missing, so that rows of it may come again in the same
   * requests. Absent: it does not matter to the transport.
   */
  passed?(checkpoint: Checkpoint, areCopiesOpen: boolean): void;
  /** The stream up to there may have been sent by an earlier run; null: none was. Absent: it does not matter to the transport. */
  replaysUntil?(position: Position | null): void;
  /** What earlier runs have parked of the stream was committed before this place. Known once the record is loaded. Absent: nothing is parked. */
  readonly keptReach?: Lsn;
  /** Requests that have the row and are not delivered. Absent: the transport does not tell. */
  find?(question: RowQuestion): readonly OpenRequest[];
  /** Begins nothing new. Returns when what is under way has ended, or `signal` aborts it. */
  drain(signal: AbortSignal): Promise<void>;
  /** Gives back what it holds. Called last, and once. */
  close(): Promise<void>;
}

export interface TransportEvents {
  /** The largest number of failed attempts now, and when the next follows; null: nothing is being tried again any more. */
  retrying(attempt: number | null, reason: string, inMs?: number): void;
  /** Something people should know, by its topic; null: it is over. */
  warning(topic: string, reason: string | null): void;
  /** Something was added that is of no row of the stream: it is to be committed with the record. Without `commitWithinMs` nothing happens. */
  commit(): void;
  /** Called once: something can never be delivered. Nothing is sent afterwards. */
  failed(error: MillraceError): void;
}

/** `store`: the connector's record in the service's state. */
export type OpenTransport = (events: TransportEvents, store: CheckpointStore) => Transport;
