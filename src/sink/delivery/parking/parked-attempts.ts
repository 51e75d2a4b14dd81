// The attempts at a parked message, and what is waited for between them.

import { type AttemptNote, keptNotes, type ParkedEntry } from "../../../connector/parking.ts";
import type { Attempt } from "../order/attempt.ts";
import { type AttemptCompany, attemptInPlace } from "../order/attempt-places.ts";
import { backoffDelay, type RetryPolicy } from "../order/backoff.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import { tableKey } from "../table-key.ts";
import { changeAt } from "./row-place.ts";

export interface ParkedAttemptsOptions extends AttemptCompany {
  readonly attempt: Attempt;
  readonly policy: RetryPolicy;
  readonly monotonic: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly random: () => number;
}

/** What came of a message. `notes`: of the attempts that failed. `held`: it is to be tried further once its table is not held any more. */
export interface ParkedResult {
  readonly kind: "delivered" | "refused" | "held";
  readonly notes: readonly AttemptNote[];
}

/** Attempts at a message before it counts as refused again: a receiver may be away for a moment. */
const mostAttempts = 4;
/** A message waits no longer between two attempts: rows of its key may wait for it, and others for its place. */
const mostPatienceMs = 30_000;

export class ParkedAttempts {
  /** Until when the receiver asked to leave a table alone, by the monotonic clock. */
  readonly #heldUntilMs = new Map<string, number>();
  /** Attempts at messages that are held. */
  readonly #made = new WeakMap<ParkedEntry, number>();

  constructor(private readonly options: ParkedAttemptsOptions) {}

  /** How long no message of its table is sent again, as the receiver asked with `Retry-After`; 0: it is not held. */
  heldMs({ schema, table }: ParkedEntry): number {
    const key = tableKey(schema, table);
    const untilMs = this.#heldUntilMs.get(key);
    if (untilMs === undefined) return 0;
    const leftMs = untilMs - this.options.monotonic();
    if (leftMs <= 0) this.#heldUntilMs.delete(key);
    return Math.max(0, leftMs);
  }

  /** `pauses` ends what is being waited for, but no attempt; `signal` an attempt too. Throws the reason of `signal`. */
  async deliver(
    entry: ParkedEntry,
    body: Uint8Array,
    pauses: AbortSignal,
    signal: AbortSignal,
  ): Promise<ParkedResult> {
    const { attempt, policy, sleep, random } = this.options;
    const request = requestOf(entry, new Uint8Array(body));
    const isOver = () => pauses.aborted || this.heldMs(entry) > 0;
    let notes: readonly AttemptNote[] = [];
    let attempts = this.#made.get(entry) ?? 0;
    this.#made.delete(entry);
    while (!pauses.aborted) {
      const outcome = await attemptInPlace(attempt, this.options, request, signal, isOver);
      let backoffMs = 0;
      if (outcome) {
        attempts++;
        if (outcome.kind === "delivered") return { kind: "delivered", notes };
        // Nothing is sent where the address is forbidden: that is no fault of the message.
        if (outcome.kind === "rejected" && !outcome.note) throw outcome.error;
        if (outcome.note) notes = keptNotes(notes, outcome.note);
        if (outcome.kind === "rejected") break;
        this.#hold(entry, outcome.retryAfterMs);
        if (attempts >= mostAttempts) break;
        backoffMs = Math.min(backoffDelay(policy, attempts - 1, random()), mostPatienceMs);
      }
      const heldMs = this.heldMs(entry);
      if (heldMs > mostPatienceMs) {
        this.#made.set(entry, attempts);
        return { kind: "held", notes };
      }
      await sleep(Math.max(backoffMs, heldMs), pauses).catch(() => undefined);
    }
    return { kind: "refused", notes };
  }

  #hold({ schema, table }: ParkedEntry, retryAfterMs: number): void {
    if (retryAfterMs <= 0) return;
    const key = tableKey(schema, table);
    const untilMs = this.options.monotonic() + retryAfterMs;
    this.#heldUntilMs.set(key, Math.max(untilMs, this.#heldUntilMs.get(key) ?? untilMs));
  }
}

function requestOf(
  { id, schema, table, hashes, isWide, places, isOfCopy }: ParkedEntry,
  body: Uint8Array<ArrayBuffer>,
): OutgoingRequest {
  const facts = { schema, table, body, rows: places.length, idempotencyKey: id, touches: hashes };
  return { ...facts, barrier: isWide, position: isOfCopy ? null : changeAt(places[0]!) };
}
