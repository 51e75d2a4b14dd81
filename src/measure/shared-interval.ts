// One timer in a thread for all that is to be done equally often: many connectors in one thread wake it together, not one by one.

interface Shared {
  readonly calls: Set<() => void>;
  readonly timer: ReturnType<typeof setInterval>;
}

const intervals = new Map<number, Shared>();

/** Calls `call` every `everyMs` until it is disposed of; the first time after that at the latest. */
export function sharedInterval(everyMs: number, call: () => void): Disposable {
  // The same function given twice is two of them.
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
    // Who joins now is called the next time; who has left is not called any more.
    for (const call of [...calls]) if (calls.has(call)) call();
  }, everyMs);
  const shared = { calls, timer };
  intervals.set(everyMs, shared);
  return shared;
}
