// Publishes tables in spite of locks: tables that are published already do not wait for one that somebody has locked.

import { untilAborted } from "../change/until-aborted.ts";
import { type MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import type { Source } from "../source/source.ts";

/** How long to wait before a locked table is tried again. */
export const lockedRetryMs = 1_000;

/** Returns the error if a table is locked, so that nothing was published; null: all are published. */
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

/** Waits until no table is locked: a new connector has nothing else to do. Calls `waits` with the reason. Throws the reason of `stop`. */
export async function publishWhenUnlocked(
  source: Source,
  stop: AbortSignal,
  waits: (reason: string) => void,
): Promise<void> {
  while (true) {
    const locked = await publishUnlessLocked(source);
    if (locked === null) return;
    waits(locked.message);
    await untilAborted(Bun.sleep(lockedRetryMs), stop);
  }
}
