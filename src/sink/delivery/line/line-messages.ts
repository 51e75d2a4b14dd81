// What passes over the line between the sink in the replication worker and the delivery in the transport's worker. Plain data; batches
// move with their buffers. A line serves one session after the other; what belongs to an older one is ignored.

import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { Checkpoint } from "../../../change/checkpoint.ts";
import type { CopyPart, RowKey } from "../../../change/copy-part.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { Relation, TableShape } from "../../../change/relation.ts";
import type { ErrorCode } from "../../../errors/error-codes.ts";
import type { RefusedTable } from "../../../errors/millrace-error.ts";
import type { CopyMode, DurableRanges, Settled, StreamDuring } from "../../copy-sink.ts";
import type { ReplayOf } from "../../replay-sink.ts";

/** A batch whose relations were sent before: `relations` holds their handles. */
export interface LineBatch extends Omit<ChangeBatch, "relations"> {
  readonly relations: readonly number[];
}

/** replication worker → transport's worker. Messages with an `id` are answered, others are not. */
export type ToDelivery =
  | { readonly type: "open"; readonly id: number }
  | { readonly type: "begin"; readonly id: number; readonly checkpoint: Checkpoint }
  | { readonly type: "log"; readonly id: number; readonly log: string }
  | { readonly type: "forget"; readonly id: number }
  | {
      readonly type: "prepare";
      readonly id: number;
      /** All that the stream will bring. */
      readonly tables: readonly TableShape[];
      /** Names of those that could not be copied so far. */
      readonly unreadable: readonly string[];
      /** What is missing is copied. */
      readonly makesCopies: boolean;
    }
  | { readonly type: "relation"; readonly handle: number; readonly relation: Relation }
  /** `bytes`: what `credit` gives back when the batch has been cut into requests. */
  | { readonly type: "changes"; readonly batch: LineBatch; readonly bytes: number }
  | { readonly type: "flush"; readonly id: number }
  | CopyMessages
  | { readonly type: "close"; readonly id: number };

/** See `CopySink` and `TableCopy`. Copies and chunks are numbered. Rows of some keys are a copy of one chunk that is not finished. */
type CopyMessages =
  | {
      readonly type: "copy.begin";
      readonly id: number;
      readonly copy: number;
      readonly handle: number;
      readonly table: TableShape;
      readonly mode: CopyMode;
      readonly stream: StreamDuring;
      /** Absent: it is a copy. */
      readonly replay?: ReplayOf;
    }
  | { readonly type: "copy.start"; readonly id: number; readonly copy: number; readonly isDivided: boolean }
  /** Answered when its rows may come. */
  | {
      readonly type: "copy.chunk";
      readonly id: number;
      readonly copy: number;
      readonly chunk: number;
      /** Null: the whole table. */
      readonly part: CopyPart | null;
      readonly lsn: Lsn;
      readonly timeUs: bigint;
    }
  | {
      readonly type: "copy.rows";
      readonly chunk: number;
      readonly isIncremental: boolean;
      readonly batch: LineBatch;
      readonly bytes: number;
    }
  /** All rows have come. Answered when that they are delivered is durable. */
  | { readonly type: "copy.chunk-end"; readonly id: number; readonly chunk: number }
  /** Its other rows do not come. */
  | { readonly type: "copy.chunk-cancel"; readonly chunk: number }
  | { readonly type: "copy.left"; readonly id: number; readonly copy: number }
  | { readonly type: "copy.finish"; readonly id: number; readonly copy: number }
  | { readonly type: "copy.end"; readonly copy: number };

/** A message without what the client adds. */
export type Question = ToDelivery extends infer M
  ? M extends { id: number }
    ? Omit<M, "id">
    : never
  : never;

/** The answer to each question; null: it was done. */
export interface Answers {
  /** Null: nothing has begun. */
  readonly open: Checkpoint | null;
  readonly begin: null;
  readonly log: null;
  readonly forget: null;
  readonly prepare: PreparedRecord;
  readonly flush: null;
  readonly "copy.begin": StreamDuring;
  readonly "copy.start": DurableRanges | null;
  readonly "copy.chunk": null;
  readonly "copy.chunk-end": null;
  readonly "copy.left": readonly RowKey[];
  readonly "copy.finish": Settled | "incomplete";
  readonly close: null;
}

export interface PreparedRecord {
  /** Names of tables whose copy is to be made. */
  readonly missing: readonly string[];
  /** Changes of tables without a copy have been delivered. */
  readonly hasChanges: boolean;
  /** Rows that are to be copied by their keys now. */
  readonly incomplete: readonly KeysOfTable[];
}

/** Keys of rows of a table, by its `schema.table`. */
export interface KeysOfTable {
  readonly name: string;
  readonly keys: readonly RowKey[];
}

export type CopyMessage<T extends string = string> = Extract<CopyMessages, { type: `copy.${T}` }>;

/** transport's worker → replication worker */
export type FromDelivery =
  /** One of `Answers`. */
  | { readonly type: "reply"; readonly id: number; readonly answer: unknown }
  /** What was asked cannot be done. The session goes on. */
  | { readonly type: "refused"; readonly id: number; readonly code: ErrorCode; readonly message: string }
  | {
      readonly type: "credit";
      readonly bytes: number;
      readonly chunk: number | null;
      readonly isIncremental: boolean;
    }
  | {
      readonly type: "durable";
      readonly checkpoint: Checkpoint;
      readonly rows: number;
      readonly bytes: number;
    }
  | { readonly type: "copy.progress"; readonly chunk: number; readonly rows: number; readonly bytes: number }
  | {
      readonly type: "retrying";
      readonly attempt: number | null;
      readonly reason: string;
      readonly inMs: number | undefined;
    }
  | { readonly type: "warning"; readonly topic: string; readonly reason: string | null }
  /** Rows are to be copied by their keys now, or tables: `prepare` returns which. */
  | { readonly type: "changed" }
  /** There is more to do once the stream has come there. */
  | { readonly type: "awaits"; readonly lsn: Lsn }
  /** Nothing is delivered in this session any more. */
  | {
      readonly type: "failed";
      readonly code: ErrorCode;
      readonly message: string;
      readonly table: RefusedTable | null;
    };

/** Every message is wrapped in the session that it belongs to. */
export interface LineEnvelope<M> {
  readonly session: number;
  readonly message: M;
}
