// The keys that the stream touches while a table is copied beside it (the watermark scheme of DBLog). A chunk leaves out rows that were
// touched since its point: the receiver has a later state of them. It also knows which rows the stream brought in part alone: the
// receiver may lack the rest. Bounded: what was touched before the point of every chunk still to come is forgotten.

import type { RowKey } from "../../../change/copy-part.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import { keyHash, keyTexts } from "../../format/row-identity.ts";
import { HashSet } from "../hash-set.ts";
import { IncompleteKeys } from "../record/incomplete-keys.ts";
import type { ChangedRow } from "../stream/change-rows.ts";

/** In memory: 16 bytes each. */
const mostKeys = 2_000_000;

/** Keys that were touched between two points. */
interface TouchedSpan {
  readonly keys: HashSet;
  /** Of the last change in it. */
  last: Lsn;
}

export class TouchedHashes {
  /** Oldest first; the last one is open. */
  #spans: TouchedSpan[] = [{ keys: new HashSet(), last: zeroLsn }];
  /** Rows that came in part, and of which no chunk has brought the whole since. */
  incomplete = new IncompleteKeys();
  /** Keys of rows that are still to be sent whole, and keys that these get meanwhile. Null: all rows, each time that one comes in part. */
  wanted: Set<bigint> | null = null;
  #truncated: Lsn = zeroLsn;
  /** What was committed up to here is forgotten. */
  #forgotten: Lsn = zeroLsn;
  /** More was touched than can be kept, or rows had no keys: it is not known any more which rows were touched. */
  isLost = false;

  constructor(private readonly most = mostKeys) {}

  see({ table, arena, before, after, commitLsn }: ChangedRow): void {
    if (before.count === 0 && after.count === 0) this.#truncate(commitLsn);
    const { key } = table.relation;
    let isWanted = this.wanted === null;
    for (const view of [before, after]) {
      const hash = view.count > 0 ? keyHash(arena, view, key) : null;
      if (hash !== null) {
        this.#touch(hash, commitLsn);
        this.incomplete.delete(hash);
        if (this.wanted?.has(hash)) isWanted = true;
        if (view === after && !after.isPartial) this.wanted?.delete(hash);
        else if (view === after && isWanted) this.#addIncomplete(keyTexts(arena, after, key)!, hash);
      } else if (view === after && view.count > 0) {
        // An old tuple without a key is of a row that keeps its key.
        this.isLost = true;
      }
    }
    if (this.incomplete.isTooMany) this.isLost = true;
  }

  /** Whether a chunk as of `point` leaves the row out. */
  leavesOut(hash: bigint, point: Lsn): boolean {
    const isTouched =
      this.#truncated >= point || this.#spans.some(({ keys, last }) => last >= point && keys.has(hash));
    // The whole row is sent, after the part. What the stream brings of it from here on finds it whole.
    if (!isTouched) {
      this.incomplete.delete(hash);
      this.wanted?.delete(hash);
    }
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

  #addIncomplete(key: RowKey, hash: bigint): void {
    this.wanted?.add(hash);
    this.incomplete.add(key, hash);
  }

  #touch(hash: bigint, commitLsn: Lsn): void {
    const span = this.#spans.at(-1)!;
    span.keys.add(hash);
    if (commitLsn > span.last) span.last = commitLsn;
    if (this.#spans.reduce((sum, { keys }) => sum + keys.size, 0) > this.most) this.isLost = true;
  }

  #truncate(commitLsn: Lsn): void {
    this.#truncated = commitLsn;
    this.incomplete.clear();
  }
}
