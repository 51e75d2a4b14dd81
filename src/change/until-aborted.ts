// Waiting that a signal ends, where what is waited for cannot be told to end.

/** The promise, or the reason of `signal` when that fires before. What comes of the promise then is nobody's matter. */
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

/** The chunks, up to where `signal` fires: then it throws its reason. */
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
    // One that hangs ends with its connection.
    if (!isEnded) void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}
