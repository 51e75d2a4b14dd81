// What a transport does: it sends one request once, and tells what came of it. Whether and when there is another attempt is left to
// the scheduler.

import { formatLsn } from "../../../change/lsn.ts";
import type { AttemptNote } from "../../../connector/parking.ts";
import type { MillraceError } from "../../../errors/millrace-error.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";

export type AttemptOutcome =
  /** `status`: of the answer, where there is one. */
  | { readonly kind: "delivered"; readonly status?: number }
  | {
      readonly kind: "retry";
      readonly reason: string;
      readonly retryAfterMs: number;
      readonly note?: AttemptNote;
    }
  /**
   * `note`: the receiver refused it; absent: it was not sent, and no other request will be. `isUncertain`: it was sent before, within this
   * attempt, without an answer: its rows may have arrived.
   */
  | {
      readonly kind: "rejected";
      readonly error: MillraceError;
      readonly note?: AttemptNote;
      readonly isUncertain?: boolean;
    };

/** Sends `request` once. Throws only `signal.reason`. */
export type Attempt = (request: OutgoingRequest, signal: AbortSignal) => Promise<AttemptOutcome>;

/** Hears of each attempt. A promise of its own around each would cost as much as all else that is noted of it. */
export interface AttemptWatch {
  /** In ms since 1970-01-01 UTC. Called when an attempt begins. */
  nowMs(): number;
  ended(request: OutgoingRequest, outcome: AttemptOutcome, beganAtMs: number): void;
}

/** A request for people: rows, table, place in the stream and key; no values. */
export function describeRequest(request: OutgoingRequest): string {
  const { position } = request;
  const place = position
    ? `at ${formatLsn(position.commitLsn)}, change ${position.ordinal}`
    : "of the table's copy";
  const rows = request.rows === 1 ? "1 row" : `${request.rows} rows`;
  return `${rows} of ${request.schema}.${request.table} ${place} (Idempotency-Key ${request.idempotencyKey})`;
}
