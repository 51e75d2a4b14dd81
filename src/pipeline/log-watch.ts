// Watches how much WAL the source retains for a run: now and then, and often while it is dangerously much, or while nothing is acknowledged
// because tables are copied or the sink takes nothing.

import { sharedInterval } from "../measure/shared-interval.ts";
import type { KeptLog, Source } from "../source/source.ts";
import type { SlotLog } from "./run-reporter.ts";

const defaultEveryMs = 5_000;
/** While it seems needless, only one of this many checks is made. */
const idleChecks = 6;

export class LogWatch implements Disposable {
  /** How much WAL is retained, as of the last check; null: it need not be checked. */
  bytes: number | null = null;
  /** The same for display, needed or not; null: not checked yet, or there is no slot. */
  slot: SlotLog | null = null;
  #checks = 0;
  #isAsking = false;
  #isOver = false;
  #reported: string | null = null;
  readonly #watching: Disposable;

  constructor(
    private readonly source: Pick<Source, "keptLog">,
    private readonly isWorthAsking: () => boolean,
    private readonly warn: (reason: string | null) => void,
    everyMs = defaultEveryMs,
  ) {
    this.#watching = sharedInterval(everyMs, () => void this.check());
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#watching[Symbol.dispose]();
  }

  /** Checks now, unless a check is under way. Never rejects. */
  async check(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    try {
      const isWorth = this.isWorthAsking();
      const isAsked = isWorth || this.#reported !== null || this.#checks++ % idleChecks === 0;
      const kept = isAsked ? await this.source.keptLog() : null;
      if (this.#isOver) return;
      this.bytes = isWorth ? (kept?.bytes ?? null) : null;
      if (!isAsked) return;
      this.slot = kept && slotLog(kept);
      this.#report(kept?.warning ?? null);
    } catch {
      // A failed check is no failure of the run: copies and the stream notice by themselves that the server is gone.
    } finally {
      this.#isAsking = false;
    }
  }

  /** Reports a warning again only if more than its numbers have changed. */
  #report(warning: string | null): void {
    const gist = gistOf(warning);
    if (gist === this.#reported) return;
    this.#reported = gist;
    this.warn(warning);
  }
}

/** A warning without its numbers. */
export function gistOf(warning: string | null): string | null {
  return warning?.replaceAll(/[\d.]+ GB/g, "") ?? null;
}

export function slotLog({ bytes, safeBytes, warning }: KeptLog): SlotLog {
  return { retainedBytes: bytes, safeBytes, warning };
}
