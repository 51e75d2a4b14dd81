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
  /** Of one range, at about. */
  readonly bytes: number;
  /** How many are copied side by side. */
  readonly lanes: number;
}

/** The last ranges are at least so small a part of a whole one: each costs a transaction at either side. */
const leastPart = 1 / 16;

/**
 * The ranges that are left to be copied, in their order. The last ones become smaller, so that all lanes are busy to the end: each takes
 * a lane's share of what is left, where that is less than a whole range (C. D. Polychronopoulos and D. J. Kuck, "Guided
 * Self-Scheduling", IEEE Transactions on Computers C-36, 1987). `done` are those that have been; none of them reach into another. What
 * lies behind the last page now is part of the last range: a table may have grown since it was measured.
 */
export function rangesLeft(
  { pages, bytes }: TableSize,
  done: readonly PageRange[],
  cut: RangeCut,
): readonly PageRange[] {
  const most = Math.max(1, Math.floor((pages * cut.bytes) / Math.max(1, bytes)));
  const least = Math.max(1, Math.floor(most * leastPart));
  const lacking = gaps(done).map(({ from, to }) => ({ from, to, end: to ?? Math.max(pages, from + 1) }));
  let left = lacking.reduce((sum, { from, end }) => sum + end - from, 0);
  const ranges: PageRange[] = [];
  for (const { from, to, end } of lacking) {
    for (let at = from; at < end; ) {
      const share = Math.ceil(left / cut.lanes);
      const next = Math.min(end, at + Math.min(most, Math.max(least, share)));
      ranges.push({ from: at, to: next === end ? to : next });
      left -= next - at;
      at = next;
    }
  }
  return ranges;
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
