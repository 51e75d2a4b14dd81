// What a verification needs of its run.

import type { CopyEnvironment } from "../copy/copy-environment.ts";

/** While the sink is further behind, nothing is compared: that would slow it down. */
export const maxLagBytes = 64 * 1024 * 1024;

export interface VerifyEnvironment extends CopyEnvironment {
  /** How many parts of a table each side reads at once at most. */
  readonly lanes: number;
  /** Bytes of the source's log that the sink is behind. */
  readonly lagBytes: () => number;
}
