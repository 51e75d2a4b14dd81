// What the windows of a stream are made with.

import type { KeylessCopies } from "../copy/keyless-copies.ts";
import type { CommitPoint } from "../record/commit-point.ts";
import type { StreamOutlet, StreamOutletOptions } from "../transport.ts";
import type { ChangeRows } from "./change-rows.ts";
import type { ProgressReportOptions } from "./progress-report.ts";

/** The checkpoint passes no more changes at once. */
export const windowChanges = 65_536;

export interface WindowLimits {
  /** By now. */
  readonly maxBytes: () => number;
  readonly maxChanges: number;
}

export interface StreamWindowsOptions extends ProgressReportOptions {
  readonly window: WindowLimits;
  readonly rows: ChangeRows;
  readonly keyless: KeylessCopies;
  readonly outlet: (options: StreamOutletOptions) => StreamOutlet;
  /** Where windows end decides what is sent: they end at the same places after a restart. */
  readonly cutsMatter: boolean;
  /** Where rows and record are committed together. */
  readonly commitPoint: CommitPoint | null;
  readonly monotonic: () => number;
  /** Lets I/O happen. */
  readonly yieldToIo: () => Promise<void>;
}
