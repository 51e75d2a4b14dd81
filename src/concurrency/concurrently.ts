// Work that goes on side by side: on many items, several at a time, or of two kinds.

/** Returns when `next` gives null and all work has ended. After a failure no more items begin. It is thrown when running work has ended. */
export async function concurrently<T>(
  workers: number,
  next: () => T | null,
  work: (item: T) => Promise<void>,
): Promise<void> {
  let failure: { readonly error: unknown } | null = null;
  const worker = async () => {
    for (let item = next(); item !== null && failure === null; item = next()) {
      try {
        await work(item);
      } catch (error) {
        failure ??= { error };
      }
      if (failure !== null) return;
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, workers) }, worker));
  // The compiler does not see what the workers have assigned.
  const { error } = (failure as { readonly error: unknown } | null) ?? {};
  if (failure !== null) throw error;
}

/** Gives the items of a list, until `stop` fires. */
export function itemsOf<T>(items: readonly T[], stop?: AbortSignal): () => T | null {
  let at = 0;
  return () => (stop?.aborted ? null : (items[at++] ?? null));
}

/** When both have ended: returns both results, or throws the first one's error, otherwise the second one's. Leaves neither unhandled. */
export async function both<A, B>(first: Promise<A>, second: Promise<B> | B): Promise<[A, B]> {
  await Promise.allSettled([first, second]);
  return [await first, await second];
}
