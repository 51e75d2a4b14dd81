// Records how far the stream may have been sent. After a restart it tells what comes again, and whether the source still has all of it: a
// standby that was promoted may lack changes that were delivered while an earlier one was still tried.

import type { Position } from "../../../change/checkpoint.ts";
import { isBefore } from "../record/sink-record.ts";
import type { StreamWindowsOptions } from "./window-options.ts";

/** Saves that nothing waits for are so far apart. */
const spacingMs = 500;

type SentReachOptions = Pick<StreamWindowsOptions, "keeper" | "cutsMatter" | "commitPoint" | "monotonic">;

export class SentReach {
  #savedMs = Number.NEGATIVE_INFINITY;
  /** Makes the next save. */
  #timer: Timer | null = null;

  constructor(private readonly options: SentReachOptions) {}

  /**
   * The record's next save has it. Returns whether it is further than before: while the stream is replayed, what was reached before the
   * restart still holds.
   */
  move(position: Position | null): boolean {
    const { keeper } = this.options;
    const { reached } = keeper.record;
    if (!position || (reached && !isBefore(reached, position))) return false;
    keeper.change({ reached: position });
    return true;
  }

  /**
   * Where requests do not wait for a save, there is one now and then: also where nobody follows any more, as the stream waits for a receiver
   * that has taken all up to here. `atOnce`: it is the last one.
   */
  follow(position: Position | null, atOnce = false): void {
    const { cutsMatter, commitPoint, monotonic } = this.options;
    if (cutsMatter || commitPoint) return;
    const isUnsaved = this.move(position) || this.#timer !== null;
    if (!isUnsaved) return;
    const waitMs = atOnce ? 0 : this.#savedMs + spacingMs - monotonic();
    if (waitMs > 0) this.#timer ??= setTimeout(() => this.#save(), waitMs);
    else this.#save();
  }

  #save(): void {
    const { keeper, monotonic } = this.options;
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#savedMs = monotonic();
    // Who reports progress says what goes wrong with a save.
    keeper.save().catch(() => undefined);
  }
}
