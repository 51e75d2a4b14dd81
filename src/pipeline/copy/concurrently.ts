// Runs work on many items, several at a time.

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
