// Writes status records to the state, in the order of what happened. While the store is away they wait for it.

import { toMillraceError } from "../../errors/millrace-error.ts";
import type { Log } from "../../log.ts";
import type { HistoryRecord, HistoryStore } from "../../state/stores/history-store.ts";

const againMs = 2_000;
/** Of those that wait; beyond it the oldest are lost. */
const mostWaiting = 10_000;

export class HistoryWriter implements AsyncDisposable {
  readonly #waiting: HistoryRecord[] = [];
  #writing: Promise<void> | null = null;
  /** The first of those that wait has been tried: it may be there. */
  #isRepeated = false;
  #again: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly store: Pick<HistoryStore, "append">,
    private readonly log: Log,
  ) {}

  add(record: HistoryRecord): void {
    this.#waiting.push(record);
    if (this.#waiting.length > mostWaiting) this.#waiting.shift();
    this.#write();
  }

  /** Resolves when every record so far is stored, or waits for a store that is away. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  /** What the store does not take now is lost. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.flush();
    if (this.#again === null) return;
    clearTimeout(this.#again);
    this.log.error({ records: this.#waiting.length }, "status records were lost");
  }

  #write(): void {
    if (this.#again !== null) return;
    this.#writing ??= this.#drain().finally(() => {
      this.#writing = null;
    });
  }

  async #drain(): Promise<void> {
    for (let [record] = this.#waiting; record; [record] = this.#waiting) {
      try {
        await this.store.append(record, this.#isRepeated);
      } catch (error) {
        const named = { connector: record.connectorId, run: record.runId, error };
        if (toMillraceError(error).code === "state_unavailable") {
          this.#isRepeated = true;
          this.log.warn(named, "the state store is away; status records wait for it");
          this.#again = setTimeout(() => this.#tryAgain(), againMs).unref();
          return;
        }
        this.log.error(named, "a status record was lost");
      }
      this.#isRepeated = false;
      const at = this.#waiting.indexOf(record);
      if (at >= 0) this.#waiting.splice(at, 1);
    }
  }

  #tryAgain(): void {
    this.#again = null;
    this.#write();
  }
}
