// How large tables are divided for their copies. Pure.

import type { RangeCut } from "../../change/page-range.ts";

export interface CopyPace {
  /** Tables of fewer bytes are copied whole. */
  readonly dividedFromBytes: number;
  /** How large a range is at most, at about. */
  readonly rangeBytes: number;
  /** How large the first ones are. */
  readonly firstRangeBytes: number;
  /** How long a range should take: the source keeps what is dead since it began, and a copy that dies begins it again. */
  readonly rangeMs: number;
  /** How large a range is that the stream waits for. */
  readonly inTurnBytes: number;
  /** For how long copies may begin as of one point. */
  readonly pointHeldMs: number;
}

export const defaultCopyPace: CopyPace = {
  dividedFromBytes: 128 * 1024 * 1024,
  rangeBytes: 64 * 1024 * 1024,
  firstRangeBytes: 8 * 1024 * 1024,
  rangeMs: 20_000,
  inTurnBytes: 4 * 1024 * 1024,
  pointHeldMs: 40_000,
};

/** A receiver may take its time for each row, and what it has is not sent again. */
export const webhookCopyPace: CopyPace = {
  ...defaultCopyPace,
  dividedFromBytes: 16 * 1024 * 1024,
  firstRangeBytes: 1024 * 1024,
};

export function rangeCut({ rangeBytes, firstRangeBytes, rangeMs }: CopyPace, lanes: number): RangeCut {
  return { bytes: rangeBytes, firstBytes: firstRangeBytes, ms: rangeMs, lanes };
}
