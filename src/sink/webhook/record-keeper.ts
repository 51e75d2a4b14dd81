// Keeps the sink's record durable: one save at a time, and all that changed meanwhile in the next one.

import type { CheckpointStore } from "../sink.ts";
import { formatRecord, type SinkRecord } from "./sink-record.ts";

export class RecordKeeper {
  #record: SinkRecord;
  #saving: Promise<void> | null = null;
  #next: Promise<void> | null = null;

  constructor(
    private readonly store: Pick<CheckpointStore, "save">,
    record: SinkRecord,
  ) {
    this.#record = record;
  }

  get record(): SinkRecord {
    return this.#record;
  }

  /** Changes the record in memory; the next save has it. */
  change(part: Partial<SinkRecord>): void {
    this.#record = { ...this.#record, ...part };
  }

  /** Resolves when the record as it is now is durable. Throws what the store throws. */
  save(): Promise<void> {
    if (!this.#saving) return this.#start();
    this.#next ??= this.#saving.then(
      () => this.#startNext(),
      () => this.#startNext(),
    );
    return this.#next;
  }

  /** Resolves when no save is under way. */
  async settled(): Promise<void> {
    while (this.#saving) await this.#saving.catch(() => undefined);
  }

  #startNext(): Promise<void> {
    this.#next = null;
    return this.#start();
  }

  #start(): Promise<void> {
    const saving = this.store.save(formatRecord(this.#record)).finally(() => {
      if (this.#saving === saving) this.#saving = null;
    });
    this.#saving = saving;
    return saving;
  }
}
