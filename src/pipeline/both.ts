// Waits for two promises without leaving either unhandled.

/** When both have ended: returns both results, or throws the first one's error, otherwise the second one's. */
export async function both<A, B>(first: Promise<A>, second: Promise<B> | B): Promise<[A, B]> {
  await Promise.allSettled([first, second]);
  return [await first, await second];
}
