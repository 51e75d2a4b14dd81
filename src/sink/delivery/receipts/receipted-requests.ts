// Writes the receipts of requests that are sent one by one. It wraps the parking and its store, so that it sees every outcome.

import type { ParkedCause } from "../../../connector/parking.ts";
import type { AttemptOutcome, AttemptWatch } from "../order/attempt.ts";
import type { RequestWork, UndeliverableRequests } from "../order/request-work.ts";
import type { ParkingStore } from "../parking/parking-store.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import type { Outcome } from "./receipt.ts";
import type { ReceiptBook } from "./receipt-book.ts";
import { type KeptRows, ReceiptRows, unknownMark } from "./receipt-rows.ts";

/** Attempts at a request that is not delivered yet. */
export interface Trial {
  readonly attempts: number;
  readonly firstAtMs: number;
  readonly lastAtMs: number;
  readonly ms: number;
  /** Of the last answer; 0: there was none. */
  readonly status: number;
  readonly error: string | null;
}

export class ReceiptedRequests implements AttemptWatch {
  readonly #trials = new Map<string, Trial & { readonly request: OutgoingRequest }>();
  /** Requests whose outcome is being decided. */
  readonly #works = new Set<RequestWork>();

  constructor(
    private readonly book: ReceiptBook,
    /** In ms since 1970-01-01 UTC. */
    readonly nowMs: () => number,
  ) {}

  /** By Idempotency-Key. */
  get trials(): ReadonlyMap<string, Trial> {
    return this.#trials;
  }

  undeliverable(inner: UndeliverableRequests): UndeliverableRequests {
    const decided = async <Result>(work: RequestWork, decide: () => Promise<Result>) => {
      this.#works.add(work);
      try {
        return await decide();
      } finally {
        this.#works.delete(work);
      }
    };
    return {
      get isIdle() {
        return inner.isIdle;
      },
      next: (work, signal) => decided(work, () => inner.next(work, signal)),
      takes: async (work, cause, signal) => {
        const request = work.parts[0];
        const goesOn = await decided(work, () => inner.takes(work, cause, signal));
        if (!goesOn && request) this.#ended(request, cause);
        return goesOn;
      },
    };
  }

  /** What is noted there does not come again: so its receipts are durable first. After a death between the two there may be one too many. */
  parkingStore(inner: ParkingStore): ParkingStore {
    const became = async (keys: readonly string[], outcome: Outcome) => {
      for (const key of keys) this.#became(this.#request(key), outcome);
      await this.book.untilSaved();
    };
    return {
      ...inner,
      cut: async (cut) => {
        await became([cut.key], "cut");
        await inner.cut(cut);
      },
      park: async (messages) => {
        const ids = messages.map(({ id }) => id);
        await became(ids, "parked");
        await inner.park(messages);
      },
      refused: async (id, ...rest) => {
        await became([id], "parked");
        await inner.refused(id, ...rest);
      },
      delivered: async (ids) => {
        await this.book.untilSaved();
        await inner.delivered(ids);
      },
    };
  }

  ended(request: OutgoingRequest, outcome: AttemptOutcome, lastAtMs: number): void {
    // A clock that was set back tells nothing.
    const ms = Math.max(0, this.nowMs() - lastAtMs);
    const key = request.idempotencyKey;
    // Most have none before, and to look for one takes as long as to write a receipt.
    const before = this.#trials.size === 0 ? undefined : this.#trials.get(key);
    const attempts = (before?.attempts ?? 0) + 1;
    const firstAtMs = before?.firstAtMs ?? lastAtMs;
    if (outcome.kind === "delivered") {
      if (before) this.#trials.delete(key);
      const { status = 0 } = outcome;
      this.#add(request, "delivered", { attempts, firstAtMs, lastAtMs, ms, status });
    } else if (outcome.note) {
      const { status = 0, error = null } = outcome.note;
      this.#trials.set(key, { attempts, firstAtMs, lastAtMs, ms, status, error, request });
    }
  }

  /** The run ends with it. */
  #ended(request: OutgoingRequest, cause: ParkedCause): void {
    this.#became(request, cause === "exhausted" ? "exhausted" : "refused");
    this.book.hurry();
  }

  #became(request: OutgoingRequest | undefined, outcome: Outcome): void {
    if (!request) return;
    const atMs = this.nowMs();
    const untried = { attempts: 0, firstAtMs: atMs, lastAtMs: atMs, ms: 0, status: 0 };
    const trial = this.#trials.get(request.idempotencyKey);
    this.#trials.delete(request.idempotencyKey);
    this.#add(request, outcome, trial ?? untried);
  }

  #add(request: OutgoingRequest, outcome: Outcome, trial: Omit<Trial, "error">): void {
    const { schema, table, idempotencyKey: key, receiptRows, touches } = request;
    const { attempts, firstAtMs, lastAtMs, ms, status } = trial;
    const rows = receiptRows ?? hashesAlone(touches);
    this.book.add({ schema, table, key, outcome, attempts, firstAtMs, lastAtMs, ms, status, rows });
  }

  #request(key: string): OutgoingRequest | undefined {
    for (const { parts } of this.#works)
      for (const part of parts) if (part.idempotencyKey === key) return part;
    return this.#trials.get(key)?.request;
  }
}

/** Of a parked message that is sent again more is not known. */
function hashesAlone(touches: readonly number[]): KeptRows {
  const rows = new ReceiptRows(false);
  for (const hash of new Set(touches)) rows.addRow(hash >>> 0, 0, unknownMark);
  return rows;
}
