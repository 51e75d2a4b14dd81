// Works out what a run of changes to one table comes to: for each key, whether its row is inserted, updated or
// deleted, and its last state. Only that is written. Pure, but for the arrays it fills.

import { type ChangeBatch, ChangeFlag, ChangeKind, UNCHANGED_LENGTH } from "../../../change/change-batch.ts";
import { storedBytes } from "../../../change/packed-hex.ts";
import {
  fillUnchanged,
  newTuple,
  type TupleRef,
  tupleColumns,
  unchangedColumns,
} from "../../../change/tuple.ts";
import { KeyIndex, readInt32 } from "./key-index.ts";

/** A value that is longer, and that an update left as it was, is not sent where the row can keep its own. */
export const longValueBytes = 64 * 1024;

/** How a key's row ends up. */
export type NetKind = "insert" | "update" | "delete" | "none";

/** Tuples that lie one behind the other. */
interface InsertRun {
  readonly run: { readonly bytes: Uint8Array; readonly start: number; end: number };
  rows: number;
}

/** Tables whose changes in a batch are inserts alone: their tuples go to COPY as they lie, run by run. */
export class InsertRuns {
  readonly runs: InsertRun[] = [];
  #last: InsertRun | null = null;

  add(batch: ChangeBatch, i: number): void {
    const start = batch.newStart[i]!;
    const end = batch.newEnd[i]!;
    const last = this.#last;
    if (last !== null && last.run.bytes === batch.arena && last.run.end === start) {
      last.run.end = end;
      last.rows++;
    } else {
      this.#last = { run: { bytes: batch.arena, start, end }, rows: 1 };
      this.runs.push(this.#last);
    }
  }

  /** The tuples one by one. Each says how many columns it has, and they how long they are. */
  *tuples(): Generator<TupleRef> {
    for (const { run } of this.runs) {
      for (let at = run.start; at < run.end; ) {
        const start = at;
        const columns = (run.bytes[at]! << 8) | run.bytes[at + 1]!;
        at += 2;
        for (let i = 0; i < columns; i++) at += 4 + storedBytes(readInt32(run.bytes, at));
        yield { bytes: run.bytes, start, end: at };
      }
    }
  }
}

const existed = 1;
const present = 2;

/** Changes to a table with a key, folded key by key. */
export class NetChanges {
  readonly #index: KeyIndex;
  #state: Uint8Array = new Uint8Array(128);
  /** The row's last state, or the tuple that holds the key of a row that is gone. */
  #start = new Uint32Array(128);
  #end = new Uint32Array(128);
  /** Entries whose last state was put together from several tuples, or may hold unchanged values. */
  readonly #own = new Map<number, TupleRef>();
  readonly #incomplete = new Set<number>();

  constructor(
    private readonly key: readonly number[],
    private readonly arena: Uint8Array,
    /** Rows of the same key are the same in all: one that comes again, or is moved to, is there already. */
    private readonly equalRowsAreOne = false,
    /** Longer values that an update left as they were are not taken from the old row: the sink's row keeps its own. */
    private readonly longestTaken = Number.POSITIVE_INFINITY,
  ) {
    this.#index = new KeyIndex(key);
  }

  get size(): number {
    return this.#index.size;
  }

  /**
   * Folds change `i` in. Returns false, and takes nothing, when it cannot be expressed as a state: a row that moves to
   * another key while the source did not send all of its values, or a key that turns out not to be one.
   */
  add(batch: ChangeBatch, i: number): boolean {
    switch (batch.kind[i]) {
      case ChangeKind.insert: {
        const entry = this.#entry(this.arena, batch.newStart[i]!, batch.newEnd[i]!, 0);
        if (this.#isPresent(entry) && !this.equalRowsAreOne) return false;
        this.#put(entry, batch.newStart[i]!, batch.newEnd[i]!);
        return true;
      }
      case ChangeKind.delete:
        this.#remove(batch.oldStart[i]!, batch.oldEnd[i]!);
        return true;
      default:
        return this.#update(batch, i);
    }
  }

  kindOf(entry: number): NetKind {
    if (!this.isTaken(entry)) return "none";
    const state = this.#state[entry]!;
    if ((state & present) !== 0) return (state & existed) !== 0 ? "update" : "insert";
    return (state & existed) !== 0 ? "delete" : "none";
  }

  /** Whether a change has said what became of the key's row: one that was not taken leaves its keys behind alone. */
  isTaken(entry: number): boolean {
    return this.#end[entry]! > 0;
  }

  tupleOf(entry: number): TupleRef {
    const own = this.#own.get(entry);
    return own ?? { bytes: this.arena, start: this.#start[entry]!, end: this.#end[entry]! };
  }

  /** Columns of an updated row that keep the value they have at the sink. */
  unchangedOf(entry: number): readonly number[] {
    if (!this.#incomplete.has(entry)) return [];
    const { bytes, start } = this.tupleOf(entry);
    return unchangedColumns(bytes, start);
  }

  #update(batch: ChangeBatch, i: number): boolean {
    const newStart = batch.newStart[i]!;
    const newEnd = batch.newEnd[i]!;
    const oldStart = batch.oldStart[i]!;
    const oldEnd = batch.oldEnd[i]!;
    const hasOld = oldEnd > oldStart;
    const hasUnchanged = (batch.flags[i]! & ChangeFlag.hasUnchanged) !== 0;
    if (!hasOld && !hasUnchanged) {
      this.#put(this.#entry(this.arena, newStart, newEnd, existed), newStart, newEnd);
      return true;
    }
    // Without an old tuple the key is as it was, and in the new one: Postgres sends an old key that was left out of line.
    const from = hasOld
      ? this.#entry(this.arena, oldStart, oldEnd, existed)
      : this.#entry(this.arena, newStart, newEnd, existed);
    const tuple = hasUnchanged ? this.#complete(batch, i, from) : null;
    const to =
      tuple === null
        ? this.#entry(this.arena, newStart, newEnd, existed)
        : this.#entry(tuple.bytes, tuple.start, tuple.end, existed);
    const isNewEntry = this.#isUntouched(to);
    const moves = from !== to;
    const isTaken = this.#isPresent(to) && !this.equalRowsAreOne;
    if (moves && (isTaken || (tuple !== null && hasUnchangedColumn(tuple)))) return false;
    // A key that is moved to did not exist unless something before said so.
    if (moves && isNewEntry) this.#state[to] = 0;
    if (moves) this.#remove(oldStart, oldEnd);
    this.#put(to, newStart, newEnd);
    if (tuple !== null) {
      this.#own.set(to, tuple);
      if (hasUnchangedColumn(tuple)) this.#incomplete.add(to);
    }
    return true;
  }

  /** The new tuple with what the source left out, from the old tuple or from the row's state in this batch. */
  #complete(batch: ChangeBatch, i: number, from: number): TupleRef {
    const known = newTuple(batch, i, this.key, this.longestTaken);
    if (!this.#isPresent(from) || !hasUnchangedColumn(known)) return known;
    const base = this.tupleOf(from);
    const bytes = fillUnchanged(known.bytes, known.start, base.bytes, base.start);
    return { bytes, start: 0, end: bytes.length };
  }

  /** The entry of a tuple's key; a new one begins as a row that `initial` says existed, or not. */
  #entry(bytes: Uint8Array, start: number, end: number, initial: number): number {
    const before = this.#index.size;
    const entry = this.#index.entryOf(bytes, start, end);
    if (entry < before) return entry;
    if (entry === this.#state.length) this.#grow();
    this.#state[entry] = initial;
    this.#start[entry] = 0;
    this.#end[entry] = 0;
    return entry;
  }

  /** The batch has said that the row is there, and what it holds. */
  #isPresent(entry: number): boolean {
    return (this.#state[entry]! & present) !== 0 && this.#end[entry]! > 0;
  }

  #isUntouched(entry: number): boolean {
    return this.#end[entry] === 0;
  }

  #put(entry: number, start: number, end: number): void {
    this.#state[entry] = this.#state[entry]! | present;
    this.#start[entry] = start;
    this.#end[entry] = end;
    if (this.#own.size > 0) this.#own.delete(entry);
    if (this.#incomplete.size > 0) this.#incomplete.delete(entry);
  }

  #remove(oldStart: number, oldEnd: number): void {
    const entry = this.#entry(this.arena, oldStart, oldEnd, existed);
    this.#put(entry, oldStart, oldEnd);
    this.#state[entry] = this.#state[entry]! & ~present;
  }

  #grow(): void {
    const capacity = this.#state.length * 2;
    const state = new Uint8Array(capacity);
    state.set(this.#state);
    this.#state = state;
    const start = new Uint32Array(capacity);
    start.set(this.#start);
    this.#start = start;
    const end = new Uint32Array(capacity);
    end.set(this.#end);
    this.#end = end;
  }
}

function hasUnchangedColumn({ bytes, start }: TupleRef): boolean {
  return tupleColumns(bytes, start).some((column) => column.length === UNCHANGED_LENGTH);
}
