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

/**
 * The ranges that are left to be copied, in their order, each of about `rangeBytes`. `done` are those that have been; none of them
 * reach into another. What lies behind the last page now is part of the last range: a table may have grown since it was measured.
 */
export function rangesLeft(
  { pages, bytes }: TableSize,
  done: readonly PageRange[],
  rangeBytes: number,
): readonly PageRange[] {
  const step = Math.max(1, Math.floor((pages * rangeBytes) / Math.max(1, bytes)));
  return gaps(done).flatMap((gap) => divide(gap, pages, step));
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

function divide({ from, to }: PageRange, pages: number, step: number): readonly PageRange[] {
  const ranges: PageRange[] = [];
  const end = to ?? Math.max(pages, from + 1);
  for (let at = from; at < end; at += step) ranges.push({ from: at, to: Math.min(at + step, end) });
  if (to !== null) return ranges;
  return [...ranges.slice(0, -1), { from: ranges.at(-1)?.from ?? from, to: null }];
}
