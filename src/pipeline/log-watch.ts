// Watches over what the source has to keep for a run: now and then, and often while nothing is acknowledged, as tables are copied or a
// sink takes nothing.

import { sharedInterval } from "../measure/shared-interval.ts";
import type { Source } from "../source/source.ts";
import type { SlotLog } from "./run-reporter.ts";

const defaultEveryMs = 5_000;
/** Of so many looks that are not worth it, one is made all the same. */
const idleLooks = 6;

export class LogWatch implements Disposable {
  /** What is kept, as it was asked last; null: it need not be asked. */
  bytes: number | null = null;
  /** What is kept, as it was asked last, needed or not; null: it was not asked yet, or there is nothing that keeps. */
  slot: SlotLog | null = null;
  #looks = 0;
  #isAsking = false;
  #isOver = false;
  #told: string | null = null;
  readonly #watching: Disposable;

  constructor(
    private readonly source: Pick<Source, "keptLog">,
    private readonly isWorthAsking: () => boolean,
    private readonly warn: (reason: string | null) => void,
    everyMs = defaultEveryMs,
  ) {
    this.#watching = sharedInterval(everyMs, () => void this.look());
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#watching[Symbol.dispose]();
  }

  /** Looks now, unless a look is under way. Never rejects. */
  async look(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    try {
      const isWorth = this.isWorthAsking();
      const isAsked = isWorth || this.#looks++ % idleLooks === 0;
      const kept = isAsked ? await this.source.keptLog() : null;
      if (this.#isOver) return;
      if (isAsked) this.slot = kept && { retainedBytes: kept.bytes, safeBytes: kept.safeBytes };
      this.bytes = isWorth ? (kept?.bytes ?? null) : null;
      this.#tell(isWorth ? (kept?.warning ?? null) : null);
    } catch {
      // A look that fails says nothing, and is no failure of the run: whatever copies or streams sees when the server is gone.
    } finally {
      this.#isAsking = false;
    }
  }

  /** The numbers of a warning change all the time: it is told again when it is over, or says something else. */
  #tell(warning: string | null): void {
    const gist = warning?.replaceAll(/[\d.]+ GB/g, "") ?? null;
    if (gist === this.#told) return;
    this.#told = gist;
    this.warn(warning);
  }
}
