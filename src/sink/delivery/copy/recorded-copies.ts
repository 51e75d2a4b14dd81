// Records copies: which ranges are delivered, and which rows may be incomplete. A row that moves from a range that is still to be copied
// into one that is delivered comes with the stream alone, which leaves out large values that did not change. Its key is recorded, and
// the row is copied by its key.

import { copyFingerprint } from "../../../change/copy-fingerprint.ts";
import type { RowKey } from "../../../change/copy-part.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import type { PageRange } from "../../../change/page-range.ts";
import { keyNames, qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { keptForTaskMs } from "../../../connector/task-state.ts";
import type { DurableRanges } from "../../copy-sink.ts";
import { type CompiledTable, isTracked } from "../../format/compiled-table.ts";
import { type OperationFilter, sendsAllRows } from "../../format/message-encoding.ts";
import { keyChanged, keyHash, keyTexts } from "../../format/row-identity.ts";
import type { KeysOfTable } from "../line/line-messages.ts";
import {
  areRangesOf,
  begunCopy,
  type ChunkedCopy,
  type CopyOrigin,
  rangesMark,
  withRange,
} from "../record/chunked-copy.ts";
import { IncompleteKeys } from "../record/incomplete-keys.ts";
import type { RecordKeeper } from "../record/record-keeper.ts";
import { hasStream } from "../record/sink-record.ts";
import { withEntry } from "../record/table-map.ts";
import type { ChangedRow, ChangeWatch } from "../stream/change-rows.ts";

/** Of one table, that are asked for at once. */
const maxKeysAtOnce = 10_000;

/**
 * Whether the stream can go on while the table is copied: of each row that it touches it tells which one that is, and no state of a row is
 * left out of it.
 */
export function canStreamGoOn(relation: Relation, filter: OperationFilter): boolean {
  return isTracked(relation) && sendsAllRows(filter);
}

export class RecordedCopies implements ChangeWatch {
  /** The sink was told that rows are to be copied, or tables. */
  #isTold = false;
  /** Tables that are being copied while the stream runs. */
  readonly #underWay = new Set<string>();
  /** Of other copies that were begun again: since when nobody makes them. */
  readonly #waitingMs = new Map<string, number>();

  constructor(
    private readonly keeper: RecordKeeper,
    private readonly filter: OperationFilter,
    private readonly nowMs: () => number = performance.now.bind(performance),
  ) {}

  /**
   * Begins a copy in ranges, or goes on with the ranges that are delivered. Null: nothing is recorded of it. `isFirst`: the table has no
   * copy. `isIncremental`: the stream goes on, and what it brings in part is recorded from here on. `mark`: ranges of another do not count.
   */
  begin(
    table: TableShape,
    isFirst: boolean,
    isIncremental: boolean,
    mark = rangesMark(table),
  ): DurableRanges | null {
    const name = qualifiedName(table.relation);
    const phase = isFirst ? "open" : "again";
    const known = this.#of(name);
    const isSame = known?.mark === mark;
    if (!this.#isDivisible(table) || (isSame && known.phase === "refused" && !isIncremental)) return null;
    // Incomplete rows of the copy before are still to be copied, and another task may go on with its ranges.
    if (known && !isFirst && (known.phase !== phase || (!isSame && areRangesOf(known.mark, table))))
      return null;
    const isKept = isSame && known.phase === phase && hasStream(this.keeper.record);
    const copy = isKept ? known : begunCopy(mark, phase);
    const points = copy.points ?? (isIncremental ? { first: zeroLsn, last: zeroLsn } : null);
    this.#put(name, { ...copy, points, keyNames: keyNames(table.relation) });
    if (isIncremental) this.#underWay.add(name);
    return { done: copy.done, begun: copy.begun, rows: copy.rows };
  }

  /** The copy is made, or given up. */
  ended(name: string): void {
    this.#underWay.delete(name);
    this.#waitingMs.delete(name);
  }

  /** Ranges as of points in another log. */
  forgetBegun(): void {
    for (const [name, { phase }] of this.keeper.record.chunked)
      if (phase === "open" || phase === "again") this.forget(name);
  }

  /** The copy is still recorded, with all that is incomplete of it. */
  holds(table: TableShape, isFirst: boolean, mark = rangesMark(table)): boolean {
    const copy = this.#of(qualifiedName(table.relation));
    return copy?.phase === (isFirst ? "open" : "again") && copy.mark === mark;
  }

  /** They go on changing with the record. */
  incompleteOf(name: string): IncompleteKeys {
    return this.#of(name)?.incomplete ?? new IncompleteKeys();
  }

  originOf(name: string): CopyOrigin | null {
    return this.#of(name)?.origin ?? null;
  }

  /** A range begins, with rows that carry `origin`. False: that is recorded already. */
  beginRange(name: string, range: PageRange, origin: CopyOrigin): boolean {
    const copy = this.#of(name);
    const isKnown = copy?.begun.some(({ from, to }) => from === range.from && to === range.to) === true;
    if (copy?.phase !== "open" || (isKnown && copy.origin !== null)) return false;
    this.#put(name, { ...copy, origin, begun: isKnown ? copy.begun : [...copy.begun, range] });
    return true;
  }

  /** Ranges of a copy are missing: those that were begun come again in the same requests. */
  get isAnyOpen(): boolean {
    return this.keeper.record.chunked.values().some(({ phase }) => phase === "open");
  }

  /** All rows of the range are delivered. */
  endRange(name: string, range: PageRange, point: Lsn, rows: number): void {
    const copy = this.#of(name);
    if (copy?.phase === "open" || copy?.phase === "again")
      this.#put(name, withRange(copy, range, point, rows));
  }

  /**
   * The table is copied while the stream waited: as one chunk as of `whole`, or, where that is zero, in ranges as of the recorded points. The
   * stream may still have to come to these, and rows may be incomplete until then.
   */
  made(table: TableShape, whole: Lsn): void {
    const known = this.#of(qualifiedName(table.relation));
    const last = this.#lastPoint(table, whole);
    this.#setCopied(table, last);
    // What is recorded of ranges does not count for a copy that came as one chunk.
    const ranges = whole === zeroLsn ? known : undefined;
    const { record } = this.keeper;
    const isBehind = hasStream(record) && last > record.checkpoint.resumeLsn && this.#isDivisible(table);
    this.#join(table, ranges?.points ?? { first: last, last }, isBehind, ranges?.incomplete);
  }

  /** The table is copied beside the stream, which has come to its points. Rows with these keys are incomplete. */
  madeIncrementally(table: TableShape, isFirst: boolean, last: Lsn, incomplete: readonly RowKey[]): void {
    const point = this.#lastPoint(table, last);
    if (isFirst) this.#setCopied(table, point);
    this.#join(table, { first: point, last: point }, false, new IncompleteKeys(incomplete));
  }

  /** Returns what takes back what `change` records of the table, unless that has changed since: it may not be selected any more. */
  undoable(name: string, change: () => void): () => void {
    const entries = () => {
      const { copied, chunked } = this.keeper.record;
      return { copied: copied.get(name), chunked: chunked.get(name) };
    };
    const before = entries();
    change();
    const made = entries();
    return () => {
      const { copied, chunked } = this.keeper.record;
      const now = entries();
      // Both tell it together: that `change` forgot the ranges looks the same after the table was deselected.
      if (now.copied !== made.copied || now.chunked !== made.chunked) return;
      this.keeper.change({
        copied: withEntry(copied, name, before.copied),
        chunked: withEntry(chunked, name, before.chunked),
      });
    };
  }

  forget(name: string): void {
    const { chunked } = this.keeper.record;
    if (!chunked.has(name)) return;
    this.keeper.change({ chunked: withEntry(chunked, name, undefined) });
  }

  /** The rows of these keys are delivered as of `point`. */
  completed(name: string, keys: readonly RowKey[], point: Lsn): void {
    this.#of(name)?.incomplete.copied(keys, point);
  }

  watches({ name }: CompiledTable): boolean {
    return this.keeper.record.chunked.size > 0 && this.#of(name)?.points != null;
  }

  /** Records the key of a row of which the stream does not bring all values, where the receiver may lack them. */
  see(row: ChangedRow): void {
    const { table, arena, after } = row;
    const copy = this.#of(table.name);
    if (!copy?.points || copy.phase === "refused" || !after.isPartial || !mayLack(copy, row)) return;
    const key = keyTexts(arena, after, table.relation.key);
    if (key) copy.incomplete.add(key);
    if (!key || copy.incomplete.isTooMany) this.#refuse(table.name, copy);
  }

  /** Whether rows, or a table, are to be copied now, and nobody was told. `at`: how far the stream has come. */
  takeDue(at: Lsn): boolean {
    if (this.keeper.record.chunked.size === 0) return false;
    this.#sweep(at);
    if (this.#isTold || !this.#isAnyDue(at)) return false;
    this.#isTold = true;
    return true;
  }

  /** The place that the stream has to come to before all incomplete rows can be copied, and nothing is left of them; null: it is there. */
  awaited(at: Lsn): Lsn | null {
    let awaited: Lsn | null = null;
    for (const { phase, points, incomplete } of this.keeper.record.chunked.values()) {
      if (phase !== "joined" || points === null || incomplete.isEmpty) continue;
      for (const place of [points.last, incomplete.copiedAt]) if (place > (awaited ?? at)) awaited = place;
    }
    return awaited;
  }

  /** What is to be copied now, before the stream goes on. */
  due(at: Lsn): readonly KeysOfTable[] {
    this.#isTold = false;
    return [...this.keeper.record.chunked]
      .filter(([, copy]) => isDue(copy, at))
      .map(([name, { incomplete }]) => ({ name, keys: incomplete.waiting(maxKeysAtOnce) }));
  }

  /** Otherwise nothing would bring a row that has moved, or its large values. */
  #isDivisible({ relation, isPartitioned }: TableShape): boolean {
    return canStreamGoOn(relation, this.filter) && relation.isKeyedByHash !== true && !isPartitioned;
  }

  #isAnyDue(at: Lsn): boolean {
    const { chunked, copied } = this.keeper.record;
    const isToBeMadeAgain = (name: string, { phase }: ChunkedCopy) =>
      phase === "refused" && copied.get(name)?.lsn === zeroLsn && !this.#underWay.has(name);
    for (const [name, copy] of chunked) if (isDue(copy, at) || isToBeMadeAgain(name, copy)) return true;
    return false;
  }

  /** More rows are incomplete than can be recorded, so this copy counts no more. Where it was begun again, the copy before it still counts. */
  #refuse(name: string, copy: ChunkedCopy): void {
    if (copy.phase === "again") {
      this.forget(name);
      return;
    }
    const { copied } = this.keeper.record;
    const made = copied.get(name);
    if (made) this.keeper.change({ copied: withEntry(copied, name, { ...made, lsn: zeroLsn }) });
    this.#put(name, { ...begunCopy(copy.mark), phase: "refused" });
  }

  #sweep(at: Lsn): void {
    for (const [name, { phase, points, incomplete }] of this.keeper.record.chunked) {
      incomplete.passed(at);
      if (phase === "again" && this.#isOverdue(name)) this.forget(name);
      if (phase !== "joined" || !incomplete.isEmpty || points === null || at < points.last) continue;
      this.forget(name);
      // So that the next run does not copy these rows again. If it fails, a later save has it.
      this.keeper.save().catch(() => undefined);
    }
  }

  /** A task that failed may be tried again for so long. */
  #isOverdue(name: string): boolean {
    if (this.#underWay.has(name)) return false;
    const sinceMs = this.#waitingMs.get(name) ?? this.nowMs();
    this.#waitingMs.set(name, sinceMs);
    return this.nowMs() - sinceMs >= keptForTaskMs;
  }

  /** Where no chunk was copied now, the record knows the points. */
  #lastPoint({ relation }: TableShape, last: Lsn): Lsn {
    const recorded = this.#of(qualifiedName(relation))?.points?.last ?? zeroLsn;
    return [last, recorded].find((point) => point > zeroLsn) ?? this.keeper.record.checkpoint.resumeLsn;
  }

  #setCopied(table: TableShape, lsn: Lsn): void {
    const copy = { identity: copyFingerprint(table), lsn };
    const copied = withEntry(this.keeper.record.copied, qualifiedName(table.relation), copy);
    this.keeper.change({ copied });
  }

  /** All is delivered. `isBehind`: the stream may bring more rows in part. */
  #join(
    table: TableShape,
    points: NonNullable<ChunkedCopy["points"]>,
    isBehind: boolean,
    incomplete = new IncompleteKeys(),
  ): void {
    const name = qualifiedName(table.relation);
    const joined = { phase: "joined", points, keyNames: keyNames(table.relation), incomplete } as const;
    if (!isBehind && incomplete.isEmpty) this.forget(name);
    else this.#put(name, { ...begunCopy(rangesMark(table)), ...joined });
  }

  #of(name: string): ChunkedCopy | undefined {
    return this.keeper.record.chunked.get(name);
  }

  #put(name: string, copy: ChunkedCopy): void {
    this.keeper.change({ chunked: withEntry(this.keeper.record.chunked, name, copy) });
  }
}

function isDue({ phase, points, incomplete }: ChunkedCopy, at: Lsn): boolean {
  if (phase !== "joined" || points === null || !incomplete.areSomeWaiting) return false;
  return at >= points.last || incomplete.isAmple;
}

/**
 * Whether the receiver may lack what the change leaves out. Between the points the row may be in none of the ranges. Changes from before the
 * first point are of rows that all are in one. There only a row that takes the key of another may be incomplete: when the stream brings
 * that other row's removal, the receiver removes the copied row. Behind the last point only an incomplete row that gets another key.
 */
function mayLack({ phase, points, incomplete }: ChunkedCopy, row: ChangedRow): boolean {
  const { table, arena, before, after, commitLsn } = row;
  const { key } = table.relation;
  const isMoved = before.count > 0 && keyChanged(arena, before, after, key);
  if (phase !== "joined" || commitLsn < points!.last) return isMoved || commitLsn >= points!.first;
  const from = isMoved ? keyHash(arena, before, key) : null;
  return from !== null && incomplete.has(from);
}
