// Watches over what the source has to keep for a run while nothing is acknowledged: while tables are copied, or a sink takes
// nothing.

import type { Source } from "../source/source.ts";

const defaultEveryMs = 5_000;

export class LogWatch implements Disposable {
  /** What is kept, as it was asked last; null: it need not be asked. */
  bytes: number | null = null;
  #isAsking = false;
  #isOver = false;
  #told: string | null = null;
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(
    private readonly source: Pick<Source, "keptLog">,
    private readonly isWorthAsking: () => boolean,
    private readonly warn: (reason: string | null) => void,
    everyMs = defaultEveryMs,
  ) {
    this.#timer = setInterval(() => void this.#look(), everyMs);
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    try {
      const kept = this.isWorthAsking() ? await this.source.keptLog() : null;
      if (this.#isOver) return;
      this.bytes = kept?.bytes ?? null;
      this.#tell(kept?.warning ?? null);
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
