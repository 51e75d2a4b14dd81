// Copies a table in ranges, several side by side, as the pool has room for them.

import type { PageRange, RangesLeft } from "../../change/page-range.ts";
import type { WorkPool } from "./work-pool.ts";

export interface RangeLanes {
  readonly ranges: RangesLeft;
  /** Most that are copied at once. */
  readonly lanes: number;
  /** Returns how long it took, in milliseconds; null: the table is given up. */
  readonly copy: (range: PageRange) => Promise<number | null>;
  /** All are copied. */
  readonly ended?: () => Promise<void>;
}

/** A range is cut when there is room for it. */
export function addRanges(pool: WorkPool, { ranges, lanes, copy, ended = async () => {} }: RangeLanes): void {
  let isGivenUp = false;
  const lane = async () => {
    const range = isGivenUp ? null : ranges.next();
    if (range === null) return;
    const ms = await copy(range);
    if (ms === null) {
      isGivenUp = true;
      return;
    }
    ranges.copied(range, ms);
    if (ranges.isDone) await ended();
    else pool.add([lane]);
  };
  pool.add(ranges.isDone ? [ended] : Array.from({ length: lanes }, () => lane));
}
