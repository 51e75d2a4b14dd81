// Tables that somebody has locked, so that the source cannot publish them yet: what is published already does not wait for them.

import { untilAborted } from "../change/until-aborted.ts";
import { type MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import type { Source } from "../source/source.ts";

/** Then it is tried again. */
export const lockedPauseMs = 1_000;

/** Returns why nothing could be published: a table is locked; null: it was. */
export async function publishUnlessLocked(source: Source): Promise<MillraceError | null> {
  try {
    await source.publish();
    return null;
  } catch (error) {
    const failure = toMillraceError(error);
    if (failure.code !== "table_locked") throw error;
    return failure;
  }
}

/** Where there is nothing to go on with before. `waits` is told why. Throws the reason of `stop`. */
export async function publishPatiently(
  source: Source,
  stop: AbortSignal,
  waits: (reason: string) => void,
): Promise<void> {
  while (true) {
    const locked = await publishUnlessLocked(source);
    if (locked === null) return;
    waits(locked.message);
    await untilAborted(Bun.sleep(lockedPauseMs), stop);
  }
}
