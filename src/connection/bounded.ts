// Waits for work that cannot be cut off, for as long as a signal allows.

import { untilAborted } from "../change/until-aborted.ts";

/** Rejects with the signal's reason as soon as it aborts; the work goes on unheard. */
export async function bounded<T>(limit: AbortSignal, work: () => Promise<T>): Promise<T> {
  limit.throwIfAborted();
  return await untilAborted(work(), limit);
}
