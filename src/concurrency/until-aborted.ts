// Ends waiting by a signal, where the awaited operation itself cannot be cancelled.

/** For work that something else ends. */
export const neverAborted = new AbortController().signal;

/**
 * The promise's result, or a throw of `signal.reason` when the signal fires first. The promise's result is dropped
 * then.
 */
export async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  promise.catch(() => {});
  signal.throwIfAborted();
  const ended = Promise.withResolvers<never>();
  const end = () => ended.reject(signal.reason);
  signal.addEventListener("abort", end, { once: true });
  try {
    return await Promise.race([promise, ended.promise]);
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/** As `untilAborted`, for work that does not begin where the signal has fired. */
export async function bounded<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  return await untilAborted(work(), signal);
}

/** Yields the chunks until `signal` fires; then throws its reason. */
export async function* chunksUntilAborted(
  chunks: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const iterator = chunks[Symbol.asyncIterator]();
  let isEnded = false;
  try {
    while (true) {
      const { done, value } = await untilAborted(iterator.next(), signal);
      isEnded = done === true;
      if (isEnded) return;
      yield value;
    }
  } finally {
    // A read that hangs ends with its connection.
    if (!isEnded) void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}
