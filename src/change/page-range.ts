// Ranges of a table's pages, the chunks of a copy. Pure; how the rows of a range are read is the source's matter.

/** Pages `[from, to)`, counted from 0. */
export interface PageRange {
  readonly from: number;
  /** Null: to the end of the table, wherever that is by then. */
  readonly to: number | null;
}

/** How much lies where. */
export interface TableSize {
  readonly pages: number;
  /** Including TOAST. */
  readonly bytes: number;
}

/** How ranges are cut. */
export interface RangeCut {
  /** The size of a range at most, approximately. */
  readonly bytes: number;
  /** The size of the first ranges, whose speed is not known yet. */
  readonly firstBytes: number;
  /** How long a range should take. */
  readonly ms: number;
  /** How many ranges are copied at once. */
  readonly lanes: number;
}

/**
 * Towards the end ranges shrink, but to no less than this part of a full one: each costs a transaction on both sides.
 */
const minPart = 1 / 16;
/** The next range is at most so many times as large as the largest one that was copied. */
const maxGrowth = 4;
/**
 * No range is smaller than this part of the first ones: a sink that takes its time for each request cannot overlap
 * those of a small range.
 */
const minPartOfFirst = 1 / 4;

/**
 * The ranges of a table that are still to be copied, in order. Each is cut when a worker is free to copy it, as large
 * as the speed of the earlier ones suggests. Towards the end each takes a worker's share of what is left, so that all
 * workers stay busy (guided self-scheduling: C. D. Polychronopoulos and D. J. Kuck, IEEE Transactions on Computers
 * C-36, 1987).
 */
export class RangesLeft {
  readonly #gaps: { from: number; readonly to: number | null; readonly end: number }[];
  /** All in pages. */
  readonly #max: number;
  readonly #min: number;
  readonly #minInTime: number;
  /** Ranges that an earlier run began: they are copied again as they were cut. */
  readonly #begun: PageRange[];
  #pagesInTime: number;
  #left: number;
  #inHand = 0;

  /**
   * `done` ranges do not overlap. `begun` ranges come first, as they were cut. The last range extends beyond the last
   * page that was measured, because the table may have grown since.
   */
  constructor(
    private readonly size: TableSize,
    done: readonly PageRange[],
    private readonly cut: RangeCut,
    begun: readonly PageRange[] = [],
  ) {
    const pagesOf = (bytes: number) =>
      Math.max(1, Math.floor((size.pages * bytes) / Math.max(1, size.bytes)));
    this.#max = Math.min(pagesOf(cut.bytes), Math.max(1, size.pages));
    this.#min = Math.max(1, Math.floor(this.#max * minPart));
    this.#pagesInTime = Math.min(this.#max, pagesOf(cut.firstBytes));
    this.#minInTime = Math.max(1, Math.floor(this.#pagesInTime * minPartOfFirst));
    this.#begun = withoutOverlap(begun, done);
    this.#gaps = gaps([...done, ...this.#begun]).map((gap) => ({ ...gap, end: this.#endOf(gap) }));
    this.#left = this.#gaps.reduce((sum, { from, end }) => sum + end - from, 0);
  }

  /** All ranges are copied. */
  get isDone(): boolean {
    return this.#begun.length === 0 && this.#gaps.length === 0 && this.#inHand === 0;
  }

  /** The next range; null: there is none. */
  next(): PageRange | null {
    const begun = this.#begun.shift();
    const [gap] = this.#gaps;
    if (begun || gap) this.#inHand++;
    if (begun || !gap) return begun ?? null;
    const { from, to, end } = gap;
    const share = Math.ceil(this.#left / this.cut.lanes);
    const next = Math.min(end, from + Math.min(this.#pagesInTime, Math.max(this.#min, share)));
    this.#left -= next - from;
    if (next === end) this.#gaps.shift();
    else gap.from = next;
    return { from, to: next === end ? to : next };
  }

  /** A range from `next` was copied in this time. */
  copied(range: PageRange, ms: number): void {
    this.#inHand--;
    const pages = this.#endOf(range) - range.from;
    const expected = Math.floor((pages * this.cut.ms) / Math.max(1, ms));
    const grown = Math.max(this.#pagesInTime, pages * maxGrowth);
    this.#pagesInTime = Math.max(this.#minInTime, Math.min(this.#max, grown, expected));
  }

  #endOf({ from, to }: PageRange): number {
    return to ?? Math.max(this.size.pages, from + 1);
  }
}

/** The begun ranges that overlap no other one, and none that is done. */
function withoutOverlap(begun: readonly PageRange[], done: readonly PageRange[]): PageRange[] {
  const taken = [...done];
  const kept: PageRange[] = [];
  for (const range of begun) {
    if (taken.some((other) => overlap(range, other))) continue;
    taken.push(range);
    kept.push(range);
  }
  return kept;
}

/** Whether both have a page in common. */
export function overlap(one: PageRange, other: PageRange): boolean {
  const isBefore = (a: PageRange, b: PageRange) => a.to !== null && a.to <= b.from;
  return !isBefore(one, other) && !isBefore(other, one);
}

function gaps(done: readonly PageRange[]): readonly PageRange[] {
  const found: PageRange[] = [];
  let at: number | null = 0;
  for (const { from, to } of done.toSorted((a, b) => a.from - b.from)) {
    if (at === null) break;
    if (from > at) found.push({ from: at, to: from });
    at = to;
  }
  if (at !== null) found.push({ from: at, to: null });
  return found;
}
