// One request to the receiver before it is sent: rows of one table as a JSON body, and what the scheduler has to know.

import type { Position } from "../../../change/checkpoint.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { RequestBody } from "../../format/values/message-body.ts";
import type { ReceiptRows } from "../receipts/receipt-rows.ts";

export interface OutgoingRequest {
  readonly schema: string;
  readonly table: string;
  /** JSON, uncompressed. */
  readonly body: RequestBody;
  readonly rows: number;
  readonly idempotencyKey: string;
  /** Hashes of the rows' identities: requests that share one are sent one after the other. */
  readonly touches: readonly number[];
  /** Waits for all earlier requests of its table, and all later ones wait for it. */
  readonly barrier: boolean;
  /** Of the first row, for people; null for rows of a copy. */
  readonly position: Position | null;
  /** Where its rows are, so that it can be cut; absent: nobody cuts it. */
  readonly rowMarks?: RequestRows | undefined;
  /** What its receipt keeps of its rows; absent: no receipts are kept, or nothing more than `touches` is known. */
  readonly receiptRows?: ReceiptRows | undefined;
}

/** The rows of a request. All lists have a member for each row. */
export interface RequestRows {
  /** Where a row ends in the body. The next begins a byte later. */
  readonly ends: readonly number[];
  /** How many of the request's `touches` come up to its end; null: each row has one. */
  readonly touchEnds: readonly number[] | null;
  /** What their places are made of, as row-place.ts has it. */
  readonly commitLsns: readonly Lsn[];
  readonly steps: readonly number[];
  readonly versions: readonly number[];
  readonly commitTimesUs: readonly number[];
  /** The body is the only row itself; otherwise an array. */
  readonly isBare: boolean;
  readonly isOfCopy: boolean;
  /** Names of the columns of the table's key. */
  readonly keyColumns: readonly string[];
  /** As of `RowEncoder`. */
  readonly columnsAt: readonly (readonly string[])[];
}
