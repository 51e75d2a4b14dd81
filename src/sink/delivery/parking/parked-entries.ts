// What a run knows of the messages that are parked, and of those that were, as long as their rows may come again after a restart. Which of
// them may be sent again now. It holds no rows.

import { behind } from "../../../change/checkpoint.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import type { ParkedEntry, StoredEntry } from "../../../connector/parking.ts";
import { StreamGarbage } from "../../../memory/stream-garbage.ts";
import { ParkedIndex } from "./parked-index.ts";
import type { ParkingStore } from "./parking-store.ts";
import { changeAt, comparePlace, type RowPoint } from "./row-place.ts";

const sweepSpacingMs = 2_000;
/** Where a run knows of nothing to forget: what was discarded leaves the state with its age. */
const idleSweepMs = 3_600_000;
/** What is left of copies is kept for so long at least, and for as long as one is not made: the state forgets it then too. */
const copiesKeptMs = 7 * 24 * 3_600_000;

export interface ParkedEntriesOptions {
  readonly store: Pick<ParkingStore, "load" | "sweep">;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
  /** What is parked has changed. */
  readonly changed: () => void;
  /** The message is parked no more. */
  readonly left?: (entry: ParkedEntry) => void;
  /** What comes again after a restart counts anew: a change is not sent again before the checkpoint is past it. Absent: it need not wait. */
  readonly waitsForCheckpoint?: boolean;
}

/** What a page's entries take until they are in the index, approximately. */
const bytesOfEntry = 1_024;

export class ParkedEntries {
  readonly parked = new ParkedIndex();
  /** Messages that are not parked any more, and whose rows may come again after a restart. */
  readonly settled = new ParkedIndex();
  /** Since when those of copies are kept there, the oldest first. */
  readonly #settledMs = new Map<ParkedEntry, number>();
  /**
   * Messages of earlier runs whose rows have not come again. Rows of their keys that were delivered before them may still come again: these
   * must not come after them.
   */
  readonly #unreached = new Set<string>();
  /** Messages that an earlier run never sent, and that are the first of their keys by now. They go without being asked for. */
  #released: ParkedEntry[] = [];
  /** At loading: the longest time for which nobody had tried a message that could be sent. Zero: somebody had asked for some. */
  untriedMs = 0;
  #passed: RowPoint = { place: -1n, version: -1 };
  #sweptPlace = -1n;
  #sweptMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly options: ParkedEntriesOptions) {}

  /** Reads what earlier runs have parked. `look` is shown each. */
  async load(look: (stored: StoredEntry) => void = () => {}): Promise<void> {
    const untried: ParkedEntry[] = [];
    const sinceTried = new Map<ParkedEntry, number>();
    let isAsked = false;
    const garbage = new StreamGarbage();
    for (let after: number | null = 0; after !== null; ) {
      const page = await this.options.store.load(after);
      for (const stored of page.entries) {
        const { entry, isSettled, isUntried, untriedMs } = stored;
        look(stored);
        if (isSettled) this.#keepSettled(entry);
        else this.parked.add(entry);
        if (!isSettled) this.#unreached.add(entry.id);
        if (isUntried) untried.push(entry);
        if (untriedMs !== null) sinceTried.set(entry, untriedMs);
        isAsked ||= untriedMs === null && !isSettled;
      }
      after = page.next;
      garbage.released(page.entries.length * bytesOfEntry);
    }
    this.#released = untried.filter((entry) => this.parked.isFirst(entry));
    for (const [entry, ms] of isAsked ? [] : sinceTried)
      if (ms > this.untriedMs && this.parked.isFirst(entry)) this.untriedMs = ms;
    if (this.parked.size > 0) this.options.changed();
  }

  get isEmpty(): boolean {
    return this.parked.size === 0 && this.settled.size === 0;
  }

  /** Changes of the stream that are parked were committed before this place; zero: none are. */
  get reach(): Lsn {
    let reach = zeroLsn;
    for (const { places, isOfCopy } of this.parked.all()) {
      const change = isOfCopy ? null : changeAt(places.at(-1)!);
      if (change && change.commitLsn >= reach) reach = behind(change);
    }
    return reach;
  }

  /** What is to be sent though nobody asks for it, once. */
  takeReleased(): readonly ParkedEntry[] {
    return this.#released.splice(0);
  }

  has(id: string): boolean {
    return this.get(id) !== undefined;
  }

  get(id: string): ParkedEntry | undefined {
    return this.parked.get(id) ?? this.settled.get(id);
  }

  /** Its rows have come again. Returns whether that was waited for, and not for the checkpoint. */
  cameAgain(id: string): boolean {
    const isAwaited = this.get(id)?.isOfCopy || !this.options.waitsForCheckpoint;
    return this.#unreached.delete(id) && isAwaited;
  }

  /** Whether all rows of its keys that came before it are delivered, and none of them comes again. */
  isReached({ id, places, isOfCopy }: ParkedEntry): boolean {
    if (comparePlace(places.at(-1)!, this.#passed) <= 0) return true;
    return (isOfCopy || !this.options.waitsForCheckpoint) && !this.#unreached.has(id);
  }

  /** The message is delivered or discarded. */
  settle(entry: ParkedEntry): void {
    this.drop(entry);
    this.#keepSettled(entry);
    this.options.changed();
  }

  /** It is parked no more, and its rows come in another message. */
  drop(entry: ParkedEntry): void {
    this.parked.remove(entry);
    this.#unreached.delete(entry.id);
    this.options.left?.(entry);
  }

  /** Rows of the stream up to there are durable, and never come again. Returns whether messages wait for the stream. */
  passed(point: RowPoint): boolean {
    this.#passed = point;
    return this.options.waitsForCheckpoint ? this.parked.size > 0 : this.#unreached.size > 0;
  }

  /**
   * Forgets what never comes again, now and then. Returns whether it did. `areCopiesOpen`: rows of a copy may come again. `hasLeft`: something
   * else is to be forgotten.
   */
  sweep(point: RowPoint, areCopiesOpen: boolean, hasLeft: boolean): boolean {
    const { store, monotonic } = this.options;
    const spacingMs = hasLeft || this.settled.size > 0 ? sweepSpacingMs : idleSweepMs;
    if (point.place <= this.#sweptPlace || monotonic() - this.#sweptMs < spacingMs) return false;
    this.#sweptMs = monotonic();
    this.#sweptPlace = point.place;
    for (const entry of [...this.settled.all()])
      if (!entry.isOfCopy && comparePlace(entry.places.at(-1)!, point) <= 0) this.settled.remove(entry);
    for (const [entry, sinceMs] of this.#settledMs) {
      if (areCopiesOpen || monotonic() - sinceMs < copiesKeptMs) break;
      this.#settledMs.delete(entry);
      this.settled.remove(entry);
    }
    // What is left in the state is removed by a later sweep.
    store.sweep(point, areCopiesOpen).catch(() => undefined);
    return true;
  }

  #keepSettled(entry: ParkedEntry): void {
    this.settled.add(entry);
    if (entry.isOfCopy) this.#settledMs.set(entry, this.options.monotonic());
  }
}
