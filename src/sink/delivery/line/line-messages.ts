// What passes over the line between the sink in the replication worker and the delivery in the webhook
// worker. Plain data; batches move with their buffers. A line serves one session after the other; what
// belongs to an older one is ignored.

import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { Checkpoint } from "../../../change/checkpoint.ts";
import type { CopyPart, RowKey } from "../../../change/copy-part.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { Relation, TableShape } from "../../../change/relation.ts";
import type { ErrorCode } from "../../../errors/error-codes.ts";
import type { BegunCopy, CopyRequest } from "../../sink.ts";

/** A batch whose relations were sent before: `relations` holds their handles. */
export interface LineBatch extends Omit<ChangeBatch, "relations"> {
  readonly relations: readonly number[];
}

/** replication worker → webhook worker. Messages with an `id` are answered with `reply`, others are not. */
export type ToDelivery =
  | { readonly type: "open"; readonly id: number }
  | { readonly type: "begin"; readonly id: number; readonly checkpoint: Checkpoint }
  | { readonly type: "log"; readonly id: number; readonly log: string }
  | { readonly type: "forget"; readonly id: number }
  /** All tables that the stream will bring; names of those that could not be copied so far. */
  | {
      readonly type: "prepare";
      readonly id: number;
      readonly tables: readonly TableShape[];
      readonly unreadable: readonly string[];
    }
  | { readonly type: "relation"; readonly handle: number; readonly relation: Relation }
  /** `bytes`: what `credit` gives back when the batch has been cut into requests. */
  | { readonly type: "changes"; readonly batch: LineBatch; readonly bytes: number }
  | { readonly type: "flush"; readonly id: number }
  | {
      readonly type: "copy.begin";
      readonly id: number;
      readonly copy: number;
      readonly handle: number;
      readonly lsn: Lsn;
      readonly timeUs: bigint;
      readonly mode: CopyRequest["mode"];
      /** Of the table; null: all of it. */
      readonly part: CopyPart | null;
      /** The copy beside the stream that it is a range of; null: of none. */
      readonly beside: number | null;
    }
  | {
      readonly type: "copy.rows";
      readonly copy: number;
      readonly isBeside: boolean;
      readonly batch: LineBatch;
      readonly bytes: number;
    }
  /** Begins a copy in ranges; the answer tells which there are. */
  | {
      readonly type: "copy.divide";
      readonly id: number;
      readonly table: TableShape;
      readonly goesOn: boolean;
    }
  /** Its rows come no more, and it is none. */
  | { readonly type: "copy.cancel"; readonly copy: number }
  /** All ranges of the table are there. Answered when that it is copied is durable. */
  | { readonly type: "copy.join"; readonly id: number; readonly table: TableShape }
  /** Answered when the copy, and that it was made, is durable. `mark`: its `copyMark`. */
  | {
      readonly type: "copy.end";
      readonly id: number;
      readonly copy: number;
      readonly beside: number | null;
      readonly mark: string;
    }
  /** The first copy of a table can be made beside the stream: its changes come before it. Answered when that is durable, if so. */
  | {
      readonly type: "beside.first";
      readonly id: number;
      readonly handle: number;
      readonly table: TableShape;
    }
  /**
   * Begins a copy beside the stream; the answer tells whether it can be made so, and which ranges there are. `isFirst`: the table has
   * no copy.
   */
  | {
      readonly type: "beside.begin";
      readonly id: number;
      readonly beside: number;
      readonly handle: number;
      readonly table: TableShape;
      readonly isFirst: boolean;
    }
  /** The point that it is as of; the answer tells whether it can be: the stream has brought nothing of the table from behind it. */
  | {
      readonly type: "beside.point";
      readonly id: number;
      readonly beside: number;
      readonly lsn: Lsn;
      readonly timeUs: bigint;
    }
  /** Its table is not what it was: it is not to count. */
  | { readonly type: "beside.spoil"; readonly beside: number }
  /** All its ranges are delivered; the answer tells what is left to be copied. Nothing is: a first copy is made, durably. */
  | { readonly type: "beside.settle"; readonly id: number; readonly beside: number }
  | { readonly type: "beside.end"; readonly beside: number }
  | { readonly type: "close"; readonly id: number };

/** webhook worker → replication worker */
export type FromDelivery =
  | { readonly type: "reply"; readonly id: number; readonly state: DeliveryState | null }
  | {
      readonly type: "credit";
      readonly bytes: number;
      readonly copy: number | null;
      readonly isBeside: boolean;
    }
  | {
      readonly type: "durable";
      readonly checkpoint: Checkpoint;
      readonly rows: number;
      readonly bytes: number;
    }
  | { readonly type: "copy.progress"; readonly copy: number; readonly rows: number; readonly bytes: number }
  | { readonly type: "retrying"; readonly attempt: number | null; readonly reason: string }
  /** Rows are due to be copied by themselves, or tables are to be copied again. */
  | { readonly type: "due" }
  /** They are once the stream has come there. */
  | { readonly type: "awaits"; readonly lsn: Lsn }
  /** Nothing is delivered in this session any more. */
  | { readonly type: "failed"; readonly code: ErrorCode; readonly message: string };

/** Where the sink stands; answers `open` and `prepare`. What follows answers what was asked of copies. */
export interface DeliveryState {
  readonly checkpoint: Checkpoint | null;
  /** Tables among the prepared ones whose first copy is not delivered. */
  readonly missing: readonly string[];
  /** Changes of some of them have been delivered. */
  readonly hasChanges?: boolean;
  /** Rows that are due. */
  readonly owed?: readonly OwedKeysOf[];
  /** The copy in ranges that was begun; null: the table is to be copied whole. */
  readonly begun?: Omit<BegunCopy, "form"> | null;
  /** The copy is made beside the stream. */
  readonly isBeside?: boolean;
  /** It is made whole, as of one point. */
  readonly isWhole?: boolean;
  /** Why the copy beside the stream has to begin anew; null: it has not. */
  readonly spoiledBy?: string | null;
  readonly settled?: { readonly keys: readonly RowKey[]; readonly isMore: boolean };
}

/** Keys of rows of a table, by its `schema.table`. */
export interface OwedKeysOf {
  readonly name: string;
  readonly keys: readonly RowKey[];
}

/** Every message is wrapped in the session that it belongs to. */
export interface LineEnvelope<M> {
  readonly session: number;
  readonly message: M;
}
