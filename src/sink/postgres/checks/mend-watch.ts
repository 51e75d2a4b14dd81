// Looks now and then whether what somebody is to mend at the sink is mended.

import { setTimeout as sleep } from "node:timers/promises";

/**
 * Calls `look` every `everyMs` until it is disposed of, and `mended` whenever it says so. A look that fails is followed by the
 * next: those who apply see by themselves when the server is gone.
 */
export function watchMends(
  everyMs: number,
  look: (signal: AbortSignal) => Promise<boolean>,
  mended: () => void,
): AsyncDisposable {
  const closing = new AbortController();
  const { signal } = closing;
  const watch = async () => {
    while (!signal.aborted) {
      await sleep(everyMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      const isMended = await look(signal).catch(() => false);
      if (isMended && !signal.aborted) mended();
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
