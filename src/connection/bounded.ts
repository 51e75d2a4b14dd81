// Waits for work that cannot be cut off, for as long as a signal allows.

/** Rejects with the signal's reason as soon as it aborts; the work goes on unheard. */
export async function bounded<T>(limit: AbortSignal, work: () => Promise<T>): Promise<T> {
  limit.throwIfAborted();
  const promise = work();
  return await new Promise<T>((resolve, reject) => {
    limit.addEventListener("abort", () => reject(limit.reason), { once: true });
    promise.then(resolve, reject);
  });
}
