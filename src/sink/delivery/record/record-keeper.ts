// Keeps the sink's record durable: one save at a time, a little apart, and all that changed meanwhile in
// the next one. What it holds of a table is written when that changes, in the same save as the rest.

import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import type { CheckpointStore } from "../../sink.ts";
import { dividedOf } from "../copy/divided-copies.ts";
import type { DeliveryState } from "../line/line-messages.ts";
import { noTables, type RecordedTables, type SavedTables } from "./recorded-tables.ts";
import {
  copiesOf,
  formatForgotten,
  formatRecord,
  holdsCopy,
  type SinkRecord,
  withMissed,
} from "./sink-record.ts";

/** Saves begin at least so far apart, unless changes are to wait for less: while much is delivered, one covers many requests. */
const mostSpacingMs = 10;

/** Requests wait for a save: it is to add less to a row's way than what its batch waits for. Pure. */
export function spacingOf(flushIntervalMs: number): number {
  return Math.min(mostSpacingMs, flushIntervalMs / 4);
}

export class RecordKeeper {
  #record: SinkRecord;
  #leftOut: ReadonlySet<string> = new Set();
  #saving: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  #begunMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(
    private readonly store: Pick<CheckpointStore, "save">,
    record: SinkRecord,
    /** What is stored of tables. */
    private readonly saved: SavedTables,
    private readonly monotonic: () => number,
    private readonly spacingMs = mostSpacingMs,
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

  /**
   * Notes which tables the stream will bring, and tells which of them lack a copy. One that is unreadable has changes before its
   * copy: that is then no first one, to be outranked by all of them.
   */
  async prepare(
    tables: readonly TableShape[],
    unreadable: readonly string[],
  ): Promise<Pick<DeliveryState, "checkpoint" | "missing" | "hasChanges">> {
    const isAhead = ({ relation }: TableShape) => unreadable.includes(qualifiedName(relation));
    const ahead = tables.filter(isAhead);
    const keyless = ahead.filter(({ relation }) => relation.key.length === 0);
    this.#leftOut = new Set(keyless.map(({ relation }) => qualifiedName(relation)));
    const copied = withMissed(copiesOf(this.#record.copied, tables), ahead);
    const divided = dividedOf(this.#record.divided, copied, tables);
    if (copied !== this.#record.copied || divided !== this.#record.divided) {
      this.change({ copied, divided });
      await this.save();
    }
    const names = tables.map(({ relation }) => qualifiedName(relation));
    const missing = names.filter((name) => !holdsCopy(copied, name));
    const hasChanges = missing.some((name) => copied.has(name));
    return { checkpoint: this.#record.checkpoint, missing, hasChanges };
  }

  /**
   * Whether a table's changes are not to be sent: its copy is still to come, will bring their rows, and without a key nothing
   * would tell that they are the same.
   */
  leavesOut(name: string): boolean {
    return this.#leftOut.has(name) && !holdsCopy(this.#record.copied, name);
  }

  /** Resolves when the record as it is now, or a later one, is durable. Throws what the store throws. */
  save(): Promise<void> {
    if (this.#isClosed) return new Promise(() => {});
    this.#next ??= this.#begin();
    return this.#next;
  }

  /** Resolves when the last version is all that is stored. No save is under way, and none comes after this. */
  async forget(lastVersion: bigint): Promise<void> {
    await this.#write(formatForgotten(lastVersion), noTables);
  }

  /** Ends when no save is under way or asked for. What is asked for later is not made: another session goes on with the record. */
  async close(): Promise<void> {
    await this.settled();
    this.#isClosed = true;
  }

  /** Resolves when no save is under way or asked for. Never throws. */
  async settled(): Promise<void> {
    for (let save = this.#next ?? this.#saving; save; save = this.#next ?? this.#saving) {
      await save.catch(() => undefined);
    }
  }

  async #begin(): Promise<void> {
    await this.#saving?.catch(() => undefined);
    const waitMs = this.#begunMs + this.spacingMs - this.monotonic();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    this.#next = null;
    this.#begunMs = this.monotonic();
    const saving = this.#write(formatRecord(this.#record), this.#record);
    this.#saving = saving;
    try {
      await saving;
    } finally {
      if (this.#saving === saving) this.#saving = null;
    }
  }

  async #write(text: string, tables: RecordedTables): Promise<void> {
    const parts = this.saved.take(tables);
    try {
      await this.store.save(text, parts);
    } catch (error) {
      this.saved.doubt(parts.keys());
      throw error;
    }
  }
}
