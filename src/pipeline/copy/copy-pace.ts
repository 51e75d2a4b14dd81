// How large tables are divided into ranges. Pure.

export interface CopyPace {
  /** Tables of fewer bytes are copied whole. */
  readonly dividedFromBytes: number;
  /** The largest size of a range, approximately. */
  readonly rangeBytes: number;
  /** The size of the first ranges. */
  readonly firstRangeBytes: number;
  /** How long a range should take: its snapshot keeps vacuum from removing dead rows, and an interrupted range is copied again. */
  readonly rangeMs: number;
  /** How long a point is used before the next one is taken. */
  readonly pointHeldMs: number;
}

export const defaultCopyPace: CopyPace = {
  dividedFromBytes: 128 * 1024 * 1024,
  rangeBytes: 64 * 1024 * 1024,
  firstRangeBytes: 8 * 1024 * 1024,
  rangeMs: 20_000,
  pointHeldMs: 40_000,
};

/** A receiver may be slow, and delivered ranges are not sent again: ranges are smaller. */
export const webhookCopyPace: CopyPace = {
  ...defaultCopyPace,
  dividedFromBytes: 16 * 1024 * 1024,
  firstRangeBytes: 1024 * 1024,
};

/** The stream's messages are committed when a range is: ranges are short. */
export const transactionCopyPace: CopyPace = {
  ...webhookCopyPace,
  rangeBytes: 16 * 1024 * 1024,
  rangeMs: 500,
};
