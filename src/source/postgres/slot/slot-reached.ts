// Remembers how far the slot has come. A server that is set back to an earlier moment without a new timeline, as from a snapshot of its disks, looks
// whole once it has written past the checkpoint. But its slot is set back too: its catalog_xmin never moves back otherwise, as the server
// stores it before it takes effect.
// https://www.postgresql.org/docs/current/view-pg-replication-slots.html

import type { SourceState } from "../../source-state.ts";

const key = "slot reached";

/** `log`: in which that was, as `formatLog` gives it. The slot of a promoted standby may be behind its primary's. */
interface Reached {
  readonly log: string;
  readonly xmin: number;
}

/** Whether the transaction id `xmin` comes before `other`: they go round in 32 bits. */
function isBefore(xmin: number, other: number): boolean {
  return ((xmin - other) | 0) < 0;
}

export class SlotReached {
  #seen: (Reached & { readonly atMs: number }) | null = null;

  constructor(
    private readonly state: Pick<SourceState, "get" | "set">,
    /** What was seen so long ago is kept: the server has stored it since, and the state is not written all the time. */
    private readonly keptAfterMs: number,
  ) {}

  /** The slot stood there at `nowMs`. */
  saw(log: string, xmin: number, nowMs: number): void {
    const seen = this.#seen;
    if (seen !== null && nowMs - seen.atMs < this.keptAfterMs) return;
    this.#seen = { log, xmin, atMs: nowMs };
    if (seen === null || this.isSetBack(seen.log, seen.xmin)) return;
    this.state.set(key, JSON.stringify({ log: seen.log, xmin: seen.xmin } satisfies Reached));
  }

  /** Whether the slot, which stands there now, has stood further in this log. Null: in any, as no other server can have the slot. */
  isSetBack(log: string | null, xmin: number): boolean {
    const text = this.state.get(key);
    if (text === undefined) return false;
    const reached = JSON.parse(text) as Reached;
    return (log === null || reached.log === log) && isBefore(xmin, reached.xmin);
  }

  /** Another slot is about to be made. */
  forget(): void {
    this.#seen = null;
    this.state.set(key, null);
  }
}
