// Tables that somebody has locked, so that the source cannot publish them yet: what is published already does not wait for them.

import { untilAborted } from "../change/until-aborted.ts";
import { toMillraceError } from "../errors/millrace-error.ts";
import type { Source } from "../source/source.ts";

/** Then it is tried again. */
export const lockedPauseMs = 1_000;

/** Returns where the error says that a table is locked, and throws it otherwise. */
export function rethrowUnlessLocked(error: unknown): void {
  if (toMillraceError(error).code !== "table_locked") throw error;
}

/** Where there is nothing to go on with before. `waits` is told why. Throws the reason of `stop`. */
export async function publishPatiently(
  source: Source,
  stop: AbortSignal,
  waits: (reason: string) => void,
): Promise<void> {
  while (true) {
    try {
      return await source.publish();
    } catch (error) {
      rethrowUnlessLocked(error);
      waits(toMillraceError(error).message);
      await untilAborted(Bun.sleep(lockedPauseMs), stop);
    }
  }
}
