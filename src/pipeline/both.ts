// Waits for two things at once. What they are is their own.

/** Side by side, and none is left alone: throws what the first has failed with, or else the second, when both have ended. */
export async function both<A, B>(first: Promise<A>, second: Promise<B> | B): Promise<[A, B]> {
  await Promise.allSettled([first, second]);
  return [await first, await second];
}
