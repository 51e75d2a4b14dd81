// The ranges that a table is copied in, as they are cut where each takes no time.

import { type PageRange, RangesLeft, type TableSize } from "../../../src/change/page-range.ts";

export function rangesAtOnce(
  size: TableSize,
  done: readonly PageRange[],
  { bytes, lanes }: { readonly bytes: number; readonly lanes: number },
): readonly PageRange[] {
  const left = new RangesLeft(size, done, { bytes, firstBytes: bytes, ms: 1_000, lanes });
  const ranges: PageRange[] = [];
  for (let range = left.next(); range; range = left.next()) ranges.push(range);
  return ranges;
}
