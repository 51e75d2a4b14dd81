// The attempts at a parked message, and what is waited for between them.

import { type AttemptNote, keptNotes, type ParkedEntry } from "../../../connector/parking.ts";
import type { Attempt } from "../order/attempt.ts";
import { type AttemptCompany, attemptInPlace } from "../order/attempt-places.ts";
import { backoffDelay, type RetryPolicy } from "../order/backoff.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";

export interface ParkedAttemptsOptions extends AttemptCompany {
  readonly attempt: Attempt;
  readonly policy: RetryPolicy;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly random: () => number;
}

/** What came of a message. `notes`: of the attempts that failed. */
export interface ParkedResult {
  readonly isDelivered: boolean;
  readonly notes: readonly AttemptNote[];
}

/** Attempts at a message before it counts as refused again: a receiver may be away for a moment. */
const mostAttempts = 4;
/** A receiver that asks for more patience gets it with the next retry. */
const mostPatienceMs = 30_000;

export class ParkedAttempts {
  constructor(private readonly options: ParkedAttemptsOptions) {}

  /** `pauses` ends what is being waited for, but no attempt; `signal` an attempt too. Throws the reason of `signal`. */
  async deliver(
    entry: ParkedEntry,
    body: Uint8Array,
    pauses: AbortSignal,
    signal: AbortSignal,
  ): Promise<ParkedResult> {
    const { attempt, policy, sleep, random } = this.options;
    const request = requestOf(entry, new Uint8Array(body));
    let notes: readonly AttemptNote[] = [];
    for (let attempts = 1; ; attempts++) {
      const outcome = await attemptInPlace(attempt, this.options, request, signal, () => pauses.aborted);
      if (outcome?.kind === "delivered") return { isDelivered: true, notes };
      // Nothing is sent where the address is forbidden: that is no fault of the message.
      if (outcome?.kind === "rejected" && !outcome.note) throw outcome.error;
      if (outcome?.note) notes = keptNotes(notes, outcome.note);
      if (outcome?.kind !== "retry" || attempts >= mostAttempts || pauses.aborted)
        return { isDelivered: false, notes };
      const delayMs = Math.max(backoffDelay(policy, attempts - 1, random()), outcome.retryAfterMs);
      await sleep(Math.min(delayMs, mostPatienceMs), pauses).catch(() => undefined);
      if (pauses.aborted) return { isDelivered: false, notes };
    }
  }
}

function requestOf(
  { id, schema, table, hashes, isWide }: ParkedEntry,
  body: Uint8Array<ArrayBuffer>,
): OutgoingRequest {
  const facts = { schema, table, body, rows: 1, idempotencyKey: id, touches: hashes };
  return { ...facts, barrier: isWide, position: null };
}
