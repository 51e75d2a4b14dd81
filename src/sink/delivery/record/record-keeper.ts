// Keeps the sink's record durable: one save at a time, a little apart. What changed during a save is in the next one. What the record
// holds of a table is written when that changes, in the same save as the rest.

import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import type { CheckpointStore } from "../../sink.ts";
import type { CommitPoint } from "./commit-point.ts";
import { noTables, type RecordedTables, type SavedTables } from "./recorded-tables.ts";
import {
  chunkedOf,
  copiesOf,
  formatForgotten,
  formatRecord,
  holdsCopy,
  lastVersionOf,
  type SinkRecord,
  withMissed,
} from "./sink-record.ts";

/** Saves begin at least so many ms apart, unless changes wait for less: while much is delivered, one save covers many requests. */
const mostSpacingMs = 10;
/** Where a save takes longer, because it has receipts too, there are fewer of them: all of them together take about as long. */
const mostReceiptSpacingMs = 25;

/** Requests wait for a save, which is to delay a row less than its batch does. Pure. */
export function spacingOf(flushIntervalMs: number, hasReceipts = false): number {
  return Math.min(hasReceipts ? mostReceiptSpacingMs : mostSpacingMs, flushIntervalMs / 4);
}

export class RecordKeeper {
  #record: SinkRecord;
  #leftOut: ReadonlySet<string> = new Set();
  #saving: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  #begunMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;
  #asOf: (() => void)[] = [];

  constructor(
    private readonly store: Pick<CheckpointStore, "save">,
    record: SinkRecord,
    /** What is stored of tables. */
    private readonly saved: SavedTables,
    private readonly monotonic: () => number,
    private readonly spacingMs = mostSpacingMs,
    /** Where rows and record are committed together. */
    private readonly commitPoint: CommitPoint | null = null,
  ) {
    this.#record = record;
  }

  get record(): SinkRecord {
    return this.#record;
  }

  /** The last version that was given out. */
  get lastVersion(): bigint {
    return lastVersionOf(this.#record);
  }

  /** Changes the record in memory; the next save has it. */
  change(part: Partial<SinkRecord>): void {
    this.#record = { ...this.#record, ...part };
  }

  /**
   * Records which tables the stream will bring, and returns which of them lack a copy. Changes of an unreadable table come before its
   * copy, which then has a version above theirs. `later`: tables whose changes have come, and whose copy is to wait, as `isLater` says.
   */
  async prepare(
    tables: readonly TableShape[],
    unreadable: readonly string[],
    isLater: (table: TableShape) => boolean = () => false,
  ): Promise<{
    readonly missing: readonly string[];
    readonly later: readonly string[];
    readonly hasChanges: boolean;
  }> {
    const isAhead = ({ relation }: TableShape) => unreadable.includes(qualifiedName(relation));
    const ahead = tables.filter(isAhead);
    const copied = withMissed(copiesOf(this.#record.copied, this.#record.chunked, tables), ahead);
    const chunked = chunkedOf(this.#record.chunked, copied, tables);
    if (copied !== this.#record.copied || chunked !== this.#record.chunked) {
      this.change({ copied, chunked });
      await this.save();
    }
    const missing = tables.filter(({ relation }) => !holdsCopy(copied, qualifiedName(relation)));
    const changed = missing.filter(({ relation }) => copied.has(qualifiedName(relation)));
    const later = changed.filter(isLater);
    const keyless = [...ahead, ...later].filter(({ relation }) => relation.key.length === 0);
    this.#leftOut = new Set(namesOf(keyless));
    return { missing: namesOf(missing), later: namesOf(later), hasChanges: changed.length > 0 };
  }

  /**
   * Whether a table's changes are left out: its copy is still to come and brings the same rows, and without a key nothing would tell that
   * they are the same.
   */
  leavesOut(name: string): boolean {
    return this.#leftOut.has(name) && !holdsCopy(this.#record.copied, name);
  }

  /**
   * Resolves when the record as it is now, or a later one, is durable. `asOf` is called when it is taken: what has changed by then is in it.
   * Throws what the store throws.
   */
  save(asOf?: () => void): Promise<void> {
    if (this.#isClosed) return new Promise(() => {});
    this.#next ??= this.#begin();
    if (asOf) this.#asOf.push(asOf);
    return this.#next;
  }

  /** Resolves when nothing but the last version is stored. Call it when no save is under way. No later one is made. */
  async forget(lastVersion: bigint): Promise<void> {
    this.#isClosed = true;
    await this.#write(formatForgotten(lastVersion), noTables);
  }

  /** Returns when no save is under way or asked for. No later one is made: another session goes on with the record. */
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
    try {
      const point = this.commitPoint;
      point?.want();
      while (point && !point.isHere) await point.change();
      point?.take();
      for (const asOf of this.#asOf) asOf();
    } finally {
      this.#asOf = [];
      this.#next = null;
    }
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

function namesOf(tables: readonly TableShape[]): readonly string[] {
  return tables.map(({ relation }) => qualifiedName(relation));
}
