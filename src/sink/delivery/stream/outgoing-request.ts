// One request to the receiver before it is sent: rows of one table as a JSON body, and what the scheduler has to know.

import type { Position } from "../../../change/checkpoint.ts";
import type { RequestBody } from "../../format/values/message-body.ts";

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
}
