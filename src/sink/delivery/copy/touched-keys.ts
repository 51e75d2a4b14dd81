// The keys that the stream touches while a table is copied beside it (the watermark scheme of DBLog). A chunk leaves out rows that were
// touched since its point: the receiver has a later state of them. Of rows of which the stream brought a part alone, it tells which
// the receiver may lack the rest of. Bounded: what was touched before the point of every chunk still to come is forgotten.

import type { RowKey } from "../../../change/copy-part.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import { keyHash, keyTexts } from "../../format/row-identity.ts";
import type { TupleView } from "../../format/values/tuple-view.ts";
import type { ChangedRow } from "../stream/change-rows.ts";
import { HashSet } from "./hash-set.ts";

/** How much is kept in memory. */
export interface TouchedBounds {
  /** 16 bytes each. */
  readonly keys: number;
  /** Of rows that came in part: their keys are kept as text. */
  readonly partial: number;
  readonly partialBytes: number;
}

const defaultBounds: TouchedBounds = { keys: 2_000_000, partial: 200_000, partialBytes: 16 * 1024 * 1024 };

/** Keys that were touched between two points. */
interface TouchedSpan {
  readonly keys: HashSet;
  /** Of the last change in it. */
  last: Lsn;
}

/** A row of which the stream has brought a part alone. */
interface PartialRow {
  readonly key: RowKey;
  readonly bytes: number;
  readonly commitLsn: Lsn;
  /** A chunk has left the whole row out. */
  isLeftOut: boolean;
}

export class TouchedKeys {
  /** Oldest first; the last one is open. */
  #spans: TouchedSpan[] = [{ keys: new HashSet(), last: zeroLsn }];
  readonly #partial = new Map<bigint, PartialRow>();
  #partialBytes = 0;
  #truncated: Lsn = zeroLsn;
  /** What was committed up to here is forgotten. */
  #forgotten: Lsn = zeroLsn;
  /** More was touched than can be kept, or rows had no keys: it is not known any more which rows were touched. */
  isLost = false;

  constructor(private readonly bounds: TouchedBounds = defaultBounds) {}

  see({ table, arena, before, after, commitLsn }: ChangedRow): void {
    if (before.count === 0 && after.count === 0) this.#truncate(commitLsn);
    const { key } = table.relation;
    for (const view of [before, after]) {
      const hash = view.count > 0 ? keyHash(arena, view, key) : null;
      if (hash !== null) this.#touch(hash, commitLsn);
      // An old tuple without a key is of a row that keeps its key.
      else if (view === after && view.count > 0) this.isLost = true;
    }
    this.#seeValues(arena, before, after, key, commitLsn);
  }

  /** Whether a chunk as of `point` leaves the row out. */
  leavesOut(hash: bigint, point: Lsn): boolean {
    const isTouched =
      this.#truncated >= point || this.#spans.some(({ keys, last }) => last >= point && keys.has(hash));
    const partial = this.#partial.get(hash);
    if (partial && isTouched) partial.isLeftOut = true;
    // The whole row is sent, after the part.
    else if (partial) this.#forgetPartial(hash);
    return isTouched;
  }

  /** Chunks as of a new point begin. */
  beginPoint(): void {
    if (this.#spans.at(-1)!.keys.size > 0) this.#spans.push({ keys: new HashSet(), last: zeroLsn });
  }

  /** Whether all that was touched since the point is known. */
  remembers(point: Lsn): boolean {
    return point > this.#forgotten;
  }

  /** Every chunk still to come is as of this point or a later one. */
  forgetBefore(point: Lsn): void {
    const open = this.#spans.at(-1);
    this.#spans = this.#spans.filter((span) => {
      const isKept = span === open || span.last >= point;
      if (!isKept && span.last > this.#forgotten) this.#forgotten = span.last;
      return isKept;
    });
  }

  /** All chunks are taken, as of points from `first` to `last`. Returns keys of rows that the receiver may hold in part. Told once. */
  takeIncomplete(first: Lsn, last: Lsn): readonly RowKey[] {
    const rows = [...this.#partial.values()];
    this.#partial.clear();
    this.#partialBytes = 0;
    const isIncomplete = ({ isLeftOut, commitLsn }: PartialRow) =>
      isLeftOut || (commitLsn >= first && commitLsn < last);
    return rows.filter(isIncomplete).map(({ key }) => key);
  }

  #touch(hash: bigint, commitLsn: Lsn): void {
    const span = this.#spans.at(-1)!;
    span.keys.add(hash);
    if (commitLsn > span.last) span.last = commitLsn;
    if (this.#spans.reduce((sum, { keys }) => sum + keys.size, 0) > this.bounds.keys) this.isLost = true;
  }

  #seeValues(
    arena: Uint8Array,
    before: TupleView,
    after: TupleView,
    key: readonly number[],
    commitLsn: Lsn,
  ): void {
    const from = before.count > 0 ? keyHash(arena, before, key) : null;
    const to = after.count > 0 ? keyHash(arena, after, key) : null;
    const known = to === null ? undefined : this.#partial.get(to);
    for (const hash of [from, to]) if (hash !== null) this.#forgetPartial(hash);
    if (!after.isPartial) return;
    const texts = keyTexts(arena, after, key);
    if (to === null || texts === null) {
      this.isLost = true;
      return;
    }
    // The values that were not sent are under the old key at the receiver.
    const isLeftOut = known?.isLeftOut === true || (from !== null && from !== to);
    const bytes = texts.reduce((sum, text) => sum + text.length, 0);
    this.#partial.set(to, { key: texts, bytes, commitLsn: known?.commitLsn ?? commitLsn, isLeftOut });
    this.#partialBytes += bytes;
    const { partial, partialBytes } = this.bounds;
    if (this.#partial.size > partial || this.#partialBytes > partialBytes) this.isLost = true;
  }

  #truncate(commitLsn: Lsn): void {
    this.#truncated = commitLsn;
    this.#partial.clear();
    this.#partialBytes = 0;
  }

  #forgetPartial(hash: bigint): void {
    const partial = this.#partial.get(hash);
    if (!partial) return;
    this.#partial.delete(hash);
    this.#partialBytes -= partial.bytes;
  }
}
