// Folds changes of one table into one net change per key: whether its row is inserted, updated or deleted, and its last state. Only that
// is written. Changes that are all inserts need no folding: their tuples stay as they are, in runs.

import { type ChangeBatch, ChangeFlag, ChangeKind, UNCHANGED_LENGTH } from "../../../change/change-batch.ts";
import { storedBytes } from "../../../change/packed-hex.ts";
import {
  filledParts,
  fillUnchanged,
  newTuple,
  partsOf,
  type TuplePart,
  type TupleRef,
  tupleColumns,
  tupleOfParts,
  unchangedColumns,
} from "../../../change/tuple.ts";
import { KeyIndex, readInt32 } from "./key-index.ts";

/** A longer value that an update left unchanged is not sent if the sink's row can keep its own. */
export const longValueBytes = 64 * 1024;

/** How a key's row ends up. */
export type NetKind = "insert" | "update" | "delete" | "none";

/** Tuples that are contiguous in memory. */
interface InsertRun {
  readonly run: { readonly bytes: Uint8Array; readonly start: number; end: number };
  rows: number;
}

/** For each relation of the batch, whether its changes in it are only inserts. */
export function relationsWithInsertsOnly(batch: ChangeBatch): readonly boolean[] {
  const onlyInserts = batch.relations.map(() => true);
  for (let i = 0; i < batch.count; i++) {
    if (batch.kind[i] !== ChangeKind.insert && batch.kind[i] !== ChangeKind.shape)
      onlyInserts[batch.relation[i]!] = false;
  }
  return onlyInserts;
}

/** For tables whose changes in a batch are only inserts: their tuples go to COPY unchanged, run by run. */
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

  /** The tuples one by one. */
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

/** The row was there before the batch. */
const existed = 1;
/** It is there after the batch. An insert is `present` alone, a delete `existed` alone, an update both. */
const present = 2;

/** What folding a change has found out. */
export interface FoldedChange {
  /** The new row, with values that were not sent from what the batch knows; null: there is none, or it is as it was sent. */
  readonly row: TupleRef | null;
  /** The row that was deleted, or had another key, as the batch knows it; null: it does not. */
  readonly before: TupleRef | null;
  /** The row has another key. */
  readonly moves: boolean;
}

const unfolded: FoldedChange = { row: null, before: null, moves: false };

/** Changes to a table with a key, folded key by key. */
export class NetChanges {
  readonly #index: KeyIndex;
  #state: Uint8Array = new Uint8Array(128);
  /** Where the row's last state is in the arena, or for a deleted row, the tuple with its key. */
  #start = new Uint32Array(128);
  #end = new Uint32Array(128);
  /** Entries whose last state was assembled from several tuples, or may have unchanged values. */
  readonly #own = new Map<number, TupleRef>();
  /** Entries whose last state is yet to be assembled: a large value is copied once, however many updates left it alone. */
  readonly #parts = new Map<number, readonly TuplePart[]>();
  readonly #incomplete = new Set<number>();
  /** Of the change that was folded last. Kept only where `keepsFolded` is set. */
  folded: FoldedChange = unfolded;

  constructor(
    private readonly key: readonly number[],
    private readonly arena: Uint8Array,
    /** The key is a hash of the whole row: an insert of a key that is there changes nothing. */
    private readonly equalRowsAreOne = false,
    /** Longer unchanged values are not taken from the old tuple: the sink's row keeps its own. */
    private readonly longestInlined = Number.POSITIVE_INFINITY,
    private readonly keepsFolded = false,
    /** A row that moves to another key is a row that is deleted, and another that is inserted. */
    private readonly foldsMoves = true,
  ) {
    this.#index = new KeyIndex(key);
  }

  get size(): number {
    return this.#index.size;
  }

  /**
   * Folds change `i` in. Returns false, and changes nothing, if no net change can express it: a row moves to another key without all of its
   * values, or must be updated where it moves, or the key is there twice.
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
        if (this.keepsFolded) this.folded = { row: null, before: this.#knownBefore(batch, i), moves: false };
        this.#remove(batch.oldStart[i]!, batch.oldEnd[i]!);
        return true;
      default:
        return this.#update(batch, i);
    }
  }

  kindOf(entry: number): NetKind {
    if (!this.isResolved(entry)) return "none";
    const state = this.#state[entry]!;
    if ((state & present) !== 0) return (state & existed) !== 0 ? "update" : "insert";
    return (state & existed) !== 0 ? "delete" : "none";
  }

  /** Whether a folded change has set the entry's state. A change that could not be folded leaves entries without one. */
  isResolved(entry: number): boolean {
    return this.#end[entry]! > 0;
  }

  tupleOf(entry: number): TupleRef {
    const parts = this.#parts.get(entry);
    if (parts) this.#own.set(entry, tupleOfParts(parts));
    this.#parts.delete(entry);
    const own = this.#own.get(entry);
    return own ?? { bytes: this.arena, start: this.#start[entry]!, end: this.#end[entry]! };
  }

  /** Columns of an updated row that keep their values at the sink. */
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
      this.folded = unfolded;
      this.#put(this.#entry(this.arena, newStart, newEnd, existed), newStart, newEnd);
      return true;
    }
    // Without an old tuple the key did not change and is in the new tuple: Postgres sends the old key if it is stored out of line.
    if (!hasOld && !this.keepsFolded) return this.#amend(newStart, newEnd);
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
    const isOccupied = this.#isPresent(to) && !this.equalRowsAreOne;
    if (moves && (!this.foldsMoves || isOccupied || (tuple !== null && hasUnchangedColumn(tuple))))
      return false;
    if (this.keepsFolded)
      this.folded = { row: tuple, before: moves ? this.#knownBefore(batch, i) : null, moves };
    // The key that a row moves to did not exist before, unless an earlier change says so.
    if (moves && isNewEntry) this.#state[to] = 0;
    if (moves) this.#remove(oldStart, oldEnd);
    this.#put(to, newStart, newEnd);
    if (tuple !== null) {
      this.#own.set(to, tuple);
      if (hasUnchangedColumn(tuple)) this.#incomplete.add(to);
    }
    return true;
  }

  /** An update of a row that keeps its key and large values. What the batch knows of these stays where it lies. */
  #amend(newStart: number, newEnd: number): true {
    const entry = this.#entry(this.arena, newStart, newEnd, existed);
    const sent = partsOf(this.arena, newStart);
    const parts = this.#isPresent(entry) ? filledParts(sent, this.#partsOf(entry)) : sent;
    this.#put(entry, newStart, newEnd);
    if (parts.some((part, i) => part !== sent[i])) this.#parts.set(entry, parts);
    if (parts.some(({ length }) => length === UNCHANGED_LENGTH)) this.#incomplete.add(entry);
    return true;
  }

  #partsOf(entry: number): readonly TuplePart[] {
    const { bytes, start } = this.#own.get(entry) ?? { bytes: this.arena, start: this.#start[entry]! };
    return this.#parts.get(entry) ?? partsOf(bytes, start);
  }

  /** The new tuple, with unchanged values filled in from the old tuple or from the row's state in this batch. */
  #complete(batch: ChangeBatch, i: number, from: number): TupleRef {
    const known = newTuple(batch, i, this.key, this.longestInlined);
    if (!this.#isPresent(from) || !hasUnchangedColumn(known)) return known;
    const base = this.tupleOf(from);
    const bytes = fillUnchanged(known.bytes, known.start, base.bytes, base.start);
    return { bytes, start: 0, end: bytes.length };
  }

  /** The row under the change's old key, as the batch has left it; null: the batch does not have it. */
  #knownBefore(batch: ChangeBatch, i: number): TupleRef | null {
    const entry = this.#entry(this.arena, batch.oldStart[i]!, batch.oldEnd[i]!, existed);
    return this.#isPresent(entry) ? this.tupleOf(entry) : null;
  }

  /** The entry of a tuple's key. `initial`: the state of a new entry. */
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

  /** Whether the batch says that the row is there, and with which values. */
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
    if (this.#parts.size > 0) this.#parts.delete(entry);
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
