// Checks from time to time whether somebody has repaired what the sink needs.

import { setTimeout as sleep } from "node:timers/promises";

/**
 * Calls `check` every `everyMs` until disposed of, and `repaired` whenever that returns true. A failed check is ignored: the session that applies
 * notices by itself that the server is gone.
 */
export function watchRepairs(
  everyMs: number,
  check: (signal: AbortSignal) => Promise<boolean>,
  repaired: () => void,
): AsyncDisposable {
  const closing = new AbortController();
  const { signal } = closing;
  const watch = async () => {
    while (!signal.aborted) {
      await sleep(everyMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      const isRepaired = await check(signal).catch(() => false);
      if (isRepaired && !signal.aborted) repaired();
    }
  };
  const ended = watch();
  return {
    async [Symbol.asyncDispose]() {
      closing.abort(new Error("the sink is closed"));
      await ended;
    },
  };
}
