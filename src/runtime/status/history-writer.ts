// Writes status records to the state, in the order of events. While the store is away the records wait.

import { toMillraceError } from "../../errors/millrace-error.ts";
import type { Log } from "../../log.ts";
import type { FencedRecord, HistoryStore } from "../../state/stores/history-store.ts";

const retryMs = 2_000;
/** How many records may wait. Beyond it the oldest are lost. */
const maxWaiting = 10_000;

export class HistoryWriter implements AsyncDisposable {
  readonly #waiting: FencedRecord[] = [];
  #writing: Promise<void> | null = null;
  /** The first waiting record was sent before, and may be stored already. */
  #isRepeated = false;
  #retryTimer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly store: Pick<HistoryStore, "append">,
    private readonly log: Log,
  ) {}

  add(record: FencedRecord): void {
    this.#waiting.push(record);
    if (this.#waiting.length > maxWaiting) this.#waiting.shift();
    this.#write();
  }

  /** Resolves when every record so far is stored, or waits for a store that is away. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  /** Records that the store does not take now are lost. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.flush();
    if (this.#retryTimer === null) return;
    clearTimeout(this.#retryTimer);
    this.log.error({ records: this.#waiting.length }, "status records were lost");
  }

  #write(): void {
    if (this.#retryTimer !== null) return;
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
          this.#retryTimer = setTimeout(() => this.#retry(), retryMs).unref();
          return;
        }
        this.log.error(named, "a status record was lost");
      }
      this.#isRepeated = false;
      const at = this.#waiting.indexOf(record);
      if (at >= 0) this.#waiting.splice(at, 1);
    }
  }

  #retry(): void {
    this.#retryTimer = null;
    this.#write();
  }
}
