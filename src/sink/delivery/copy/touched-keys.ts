// Which rows of a table the stream has brought while a copy of it is made, and what of them a receiver may lack. A copy's row as of a
// point goes out when the stream has passed the point, unless the stream has brought the row since: then the receiver has a later
// state. Bounded: what was touched before the point of every range still to come is forgotten.

import type { RowKey } from "../../../change/copy-part.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import { keyHash, keyTexts } from "../../format/row-identity.ts";
import type { TupleView } from "../../format/values/tuple-view.ts";
import type { ChangedRow } from "../stream/change-rows.ts";
import { HashSet } from "./hash-set.ts";

/** How much is remembered. */
export interface TouchedBounds {
  /** 16 bytes each. */
  readonly keys: number;
  /** Of rows that came in part: they are remembered as text. */
  readonly partial: number;
  readonly partialBytes: number;
}

const defaultBounds: TouchedBounds = { keys: 2_000_000, partial: 200_000, partialBytes: 16 * 1024 * 1024 };

/** Keys that were touched over a stretch of the stream. */
interface Stretch {
  readonly keys: HashSet;
  /** Of the last change in it. */
  last: Lsn;
}

/** A row of which the stream has brought a part alone. */
interface PartialRow {
  readonly key: RowKey;
  readonly bytes: number;
  readonly commitLsn: Lsn;
  /** A range had it, and it did not go out. */
  isLeftOut: boolean;
}

export class TouchedKeys {
  /** Oldest first; the last one is open. */
  #stretches: Stretch[] = [{ keys: new HashSet(), last: zeroLsn }];
  readonly #partial = new Map<bigint, PartialRow>();
  #partialBytes = 0;
  #truncated: Lsn = zeroLsn;
  /** What was committed up to here is forgotten. */
  #forgotten: Lsn = zeroLsn;
  /** Too much was touched, or not told apart: nothing can be said any more. */
  isLost = false;

  constructor(private readonly bounds: TouchedBounds = defaultBounds) {}

  see({ table, arena, before, after, commitLsn }: ChangedRow): void {
    if (before.count === 0 && after.count === 0) this.#truncate(commitLsn);
    const { key } = table.relation;
    for (const view of [before, after]) {
      const hash = view.count > 0 ? keyHash(arena, view, key) : null;
      if (hash !== null) this.#touch(hash, commitLsn);
      // An old tuple without a key is one of a row that keeps it.
      else if (view === after && view.count > 0) this.isLost = true;
    }
    this.#seeValues(arena, before, after, key, commitLsn);
  }

  /** Whether the row is to be left out of a range as of `point`. */
  leavesOut(hash: bigint, point: Lsn): boolean {
    const isTouched =
      this.#truncated >= point || this.#stretches.some(({ keys, last }) => last >= point && keys.has(hash));
    const partial = this.#partial.get(hash);
    if (partial && isTouched) partial.isLeftOut = true;
    // The whole row goes out, behind the part.
    else if (partial) this.#forgetPartial(hash);
    return isTouched;
  }

  /** Ranges begin as of a point that none was as of before. */
  beginPoint(): void {
    if (this.#stretches.at(-1)!.keys.size > 0) this.#stretches.push({ keys: new HashSet(), last: zeroLsn });
  }

  /** Whether all that was touched since the point is known. */
  remembers(point: Lsn): boolean {
    return point > this.#forgotten;
  }

  /** Every range still to come is as of this point or a later one. */
  forgetBefore(point: Lsn): void {
    const open = this.#stretches.at(-1);
    this.#stretches = this.#stretches.filter((stretch) => {
      const isKept = stretch === open || stretch.last >= point;
      if (!isKept && stretch.last > this.#forgotten) this.#forgotten = stretch.last;
      return isKept;
    });
  }

  /** All ranges have been taken, as of points from `first` to `last`: keys of rows that the receiver may not have whole. Told once. */
  takeOwed(first: Lsn, last: Lsn): readonly RowKey[] {
    const rows = [...this.#partial.values()];
    this.#partial.clear();
    this.#partialBytes = 0;
    const isOwed = ({ isLeftOut, commitLsn }: PartialRow) =>
      isLeftOut || (commitLsn >= first && commitLsn < last);
    return rows.filter(isOwed).map(({ key }) => key);
  }

  #touch(hash: bigint, commitLsn: Lsn): void {
    const stretch = this.#stretches.at(-1)!;
    stretch.keys.add(hash);
    if (commitLsn > stretch.last) stretch.last = commitLsn;
    if (this.#stretches.reduce((sum, { keys }) => sum + keys.size, 0) > this.bounds.keys) this.isLost = true;
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
    // A row has left what is not sent of it behind with its old key.
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
