// Shares one timer among all callers in a thread with the same interval: many connectors wake the thread together, not
// one by one.

interface Shared {
  readonly calls: Set<() => void>;
  readonly timer: ReturnType<typeof setInterval>;
}

const intervals = new Map<number, Shared>();

/** Calls `call` every `everyMs` until it is disposed of; for the first time within `everyMs`. */
export function sharedInterval(everyMs: number, call: () => void): Disposable {
  // A wrapper, so that the same function can be registered twice.
  const own = () => call();
  const shared = intervals.get(everyMs) ?? begin(everyMs);
  shared.calls.add(own);
  return {
    [Symbol.dispose]: () => {
      if (!shared.calls.delete(own) || shared.calls.size > 0) return;
      clearInterval(shared.timer);
      intervals.delete(everyMs);
    },
  };
}

function begin(everyMs: number): Shared {
  const calls = new Set<() => void>();
  const timer = setInterval(() => {
    // A caller that joins during the loop is called the next time; one that has left is not called.
    for (const call of [...calls]) if (calls.has(call)) call();
  }, everyMs);
  const shared = { calls, timer };
  intervals.set(everyMs, shared);
  return shared;
}
