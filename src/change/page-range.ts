// Ranges of a table's pages: what a copy that is made in parts is divided into. Pure. How the rows in a range are read is the
// source's matter.

/** Pages from `from` on, counted from 0. */
export interface PageRange {
  readonly from: number;
  /** The page behind the last; null: to the table's end, wherever that is by then. */
  readonly to: number | null;
}

/** How much lies where. */
export interface TableSize {
  readonly pages: number;
  /** With what lies out of line. */
  readonly bytes: number;
}

/** How ranges are cut. */
export interface RangeCut {
  /** How large a range is at most, at about. */
  readonly bytes: number;
  /** How large the first ones are, of which nobody knows how long they take. */
  readonly firstBytes: number;
  /** How long one should take. */
  readonly ms: number;
  /** How many are copied side by side. */
  readonly lanes: number;
}

/** The last ranges are at least so small a part of a whole one: each costs a transaction at either side. */
const leastPart = 1 / 16;
/** How many times as large as those that are known the next ones are at most. */
const mostGrowth = 4;
/** They are no smaller a part of the first ones: where each request takes its time, those of a small range do not go side by side. */
const leastOfFirst = 1 / 4;

/**
 * What is left of a table to be copied: ranges in their order, each cut when somebody is free to copy it. It is as large as those before
 * it let expect of its time. The last ones become smaller, so that all lanes are busy to the end: each takes a lane's share of what is
 * left (C. D. Polychronopoulos and D. J. Kuck, "Guided Self-Scheduling", IEEE Transactions on Computers C-36, 1987).
 */
export class RangesLeft {
  readonly #lacking: { from: number; readonly to: number | null; readonly end: number }[];
  /** All in pages. */
  readonly #most: number;
  readonly #least: number;
  readonly #leastInTime: number;
  /** That had begun, and come as they were. */
  readonly #again: PageRange[];
  #pagesInTime: number;
  #left: number;
  #inHand = 0;

  /**
   * `done` are those that have been; none of them reach into another. Those that were `begun` come first, as they were cut then. What
   * lies behind the last page now is part of the last range: a table may have grown since it was measured.
   */
  constructor(
    private readonly size: TableSize,
    done: readonly PageRange[],
    private readonly cut: RangeCut,
    begun: readonly PageRange[] = [],
  ) {
    const pagesOf = (bytes: number) =>
      Math.max(1, Math.floor((size.pages * bytes) / Math.max(1, size.bytes)));
    this.#most = pagesOf(cut.bytes);
    this.#least = Math.max(1, Math.floor(this.#most * leastPart));
    this.#pagesInTime = Math.min(this.#most, pagesOf(cut.firstBytes));
    this.#leastInTime = Math.max(1, Math.floor(this.#pagesInTime * leastOfFirst));
    this.#again = apart(begun, done);
    this.#lacking = gaps([...done, ...this.#again]).map((gap) => ({ ...gap, end: this.#endOf(gap) }));
    this.#left = this.#lacking.reduce((sum, { from, end }) => sum + end - from, 0);
  }

  /** All are copied. */
  get isDone(): boolean {
    return this.#again.length === 0 && this.#lacking.length === 0 && this.#inHand === 0;
  }

  /** The next; null: there is none. */
  next(): PageRange | null {
    const again = this.#again.shift();
    const [gap] = this.#lacking;
    if (again || gap) this.#inHand++;
    if (again || !gap) return again ?? null;
    const { from, to, end } = gap;
    const share = Math.ceil(this.#left / this.cut.lanes);
    const next = Math.min(end, from + Math.min(this.#pagesInTime, Math.max(this.#least, share)));
    this.#left -= next - from;
    if (next === end) this.#lacking.shift();
    else gap.from = next;
    return { from, to: next === end ? to : next };
  }

  /** One that `next` gave is copied, and has taken so long. */
  copied(range: PageRange, ms: number): void {
    this.#inHand--;
    const pages = this.#endOf(range) - range.from;
    const expected = Math.floor((pages * this.cut.ms) / Math.max(1, ms));
    const grown = Math.max(this.#pagesInTime, pages * mostGrowth);
    this.#pagesInTime = Math.max(this.#leastInTime, Math.min(this.#most, grown, expected));
  }

  #endOf({ from, to }: PageRange): number {
    return to ?? Math.max(this.size.pages, from + 1);
  }
}

/** Those that reach into no other, nor into one that is done. */
function apart(begun: readonly PageRange[], done: readonly PageRange[]): PageRange[] {
  const taken = [...done];
  const kept: PageRange[] = [];
  for (const range of begun) {
    if (taken.some((other) => overlap(range, other))) continue;
    taken.push(range);
    kept.push(range);
  }
  return kept;
}

/** Whether there is a page in both. */
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
