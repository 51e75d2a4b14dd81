// Which leases this replica holds, and until when by its own clock. When they could not be renewed by then, all are lost, whatever else
// goes on. A timer sees to that, and so does each question, since the process or its machine may have stood still. A replica that was
// alone when the state answered last goes on: nobody else has asked for its leases. Another one may join while this one cannot reach the
// state, and takes the leases under higher terms. What this one still writes under its own is refused.
//
// A lease that was lost or given back is never held again under the same term: the state may hear of it late, and another replica may
// have it by then.

import { toMillraceError } from "../../errors/millrace-error.ts";
import type { Log } from "../../log.ts";
import type { ReplicaSelf, Terms } from "../../state/stores/lease-store.ts";
import type { LeaseClock } from "./lease-clock.ts";
import { deadlineAfter } from "./lease-decisions.ts";
import type { LeaseLog } from "./lease-log.ts";
import type { Schedule } from "./look-loop.ts";

export interface HeldLeasesContext {
  readonly self: ReplicaSelf;
  readonly clock: LeaseClock;
  readonly log: Log;
  /** The replica holds the connector from now on. */
  gained(connectorId: string, term: number): void;
  /** It no longer may: everything of its run must end now, without waiting for what is in flight. */
  lost(connectorId: string): void;
  readonly schedule: Schedule;
  /** Whether the state knew of no other living replica when it answered last. */
  isAlone(): boolean;
}

export class HeldLeases {
  /** Terms by connector id, in the order in which they were gained. Each was told. */
  readonly #held = new Map<string, number>();
  /** No longer held, under this term; the state may not know it yet. */
  readonly #ended = new Map<string, number>();
  /** When the last renewal that was answered had been sent. */
  #renewedAt = Number.NEGATIVE_INFINITY;
  #deadline = Number.NEGATIVE_INFINITY;
  #cancelTimer = () => {};

  constructor(
    private readonly context: HeldLeasesContext,
    private readonly leaseLog: LeaseLog,
  ) {}

  get renewedAt(): number {
    return this.#renewedAt;
  }

  get ids(): string[] {
    return [...this.#held.keys()];
  }

  /** Whether the state knows all that has ended here. */
  get isSettled(): boolean {
    return this.#ended.size === 0;
  }

  termOf(id: string): number | undefined {
    return this.#held.get(id);
  }

  holds(id: string, forMs: number): boolean {
    const now = this.check();
    return this.#held.has(id) && (now + forMs < this.#deadline || this.context.isAlone());
  }

  /** Tells all as lost when the deadline has passed; returns the time. */
  check(): number {
    const now = this.context.clock();
    if (this.#held.size > 0 && now >= this.#deadline && !this.context.isAlone()) {
      const ids = this.ids;
      this.leaseLog.expired(ids, now - this.#renewedAt, now - this.#deadline);
      this.lose(ids);
    }
    return now;
  }

  /**
   * The answer to a renewal that was sent at `sentAt`. Leases that a take without an answer got are gained, if `mayGain`. Returns those
   * to release, since they have ended here. An answer that comes after the deadline is worth nothing.
   */
  renewed(terms: Terms, sentAt: number, mayGain: boolean): Terms {
    const deadline = deadlineAfter(sentAt, this.context.self.leaseMs);
    if (this.check() >= deadline) return new Map();
    this.#renewedAt = sentAt;
    this.#deadline = deadline;
    this.#watch();
    for (const [id, term] of [...this.#held]) {
      if (terms.get(id) !== term) this.#revoke(id);
    }
    // Terms grow: what the state does not know as ours by now will not be ours again.
    for (const [id, term] of this.#ended) if (terms.get(id) !== term) this.#ended.delete(id);
    for (const id of this.#gain(terms, mayGain).keys()) this.leaseLog.found(id);
    return new Map([...terms].filter(([id, term]) => this.#ended.get(id) === term));
  }

  /** What a take got; returns what is held now. After the deadline nothing is: the next renewal tells it. */
  taken(terms: Terms, mayGain: boolean): Terms {
    if (this.check() >= this.#deadline) return new Map();
    // Nobody takes what it has: the connector was deleted since the last renewal, and made again under its id.
    for (const id of this.ids.filter((id) => terms.has(id))) this.#revoke(id);
    return this.#gain(terms, mayGain);
  }

  lose(ids: readonly string[]): void {
    for (const id of ids) this.#end(id);
    for (const id of ids) this.#call(() => this.context.lost(id));
  }

  stopTimer(): void {
    this.#cancelTimer();
  }

  #end(id: string): void {
    const term = this.#held.get(id);
    if (term !== undefined) this.#ended.set(id, term);
    this.#held.delete(id);
  }

  #revoke(id: string): void {
    this.leaseLog.revoked(id);
    this.lose([id]);
  }

  #gain(terms: Terms, mayGain: boolean): Terms {
    const fresh = [...terms].filter(([id, term]) => !this.#held.has(id) && this.#ended.get(id) !== term);
    const gained = new Map(mayGain ? fresh : []);
    for (const [id, term] of fresh) (mayGain ? this.#held : this.#ended).set(id, term);
    for (const [id, term] of gained) this.#call(() => this.context.gained(id, term));
    return gained;
  }

  #watch(): void {
    this.#cancelTimer();
    this.#cancelTimer = this.context.schedule(Math.max(1, this.#deadline - this.context.clock()), () => {
      // The timer may be early by this clock.
      if (this.check() < this.#deadline) this.#watch();
    });
  }

  /** One that fails must not keep the others from being told. */
  #call(tell: () => void): void {
    try {
      tell();
    } catch (error) {
      this.context.log.error(
        { error: toMillraceError(error) },
        "the gain or loss of a connector had no full effect",
      );
    }
  }
}
