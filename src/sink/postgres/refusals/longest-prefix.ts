// Finds the first refused change of a sequence by trying prefixes of it. It knows nothing of what changes are.

/**
 * Returns the length of a prefix that is accepted while the next longer one is refused. The empty prefix is accepted, and all `count` changes are
 * refused. Tries short prefixes first: after a restart, the change that was refused before comes early.
 */
export async function longestPrefix(
  count: number,
  isAccepted: (length: number) => Promise<boolean>,
): Promise<number> {
  let taken = 0;
  let refused = count;
  for (let length = 1; length < refused; length *= 2) {
    if (await isAccepted(length)) taken = length;
    else refused = length;
  }
  return await bisect(taken, refused, isAccepted);
}

/**
 * As `longestPrefix`, but tries long prefixes first. The prefix of length `from` is accepted, and that of length `to` is refused.
 */
export async function lastAccepted(
  from: number,
  to: number,
  isAccepted: (length: number) => Promise<boolean>,
): Promise<number> {
  let taken = from;
  let refused = to;
  for (let step = 1; to - step > from; step *= 2) {
    if (await isAccepted(to - step)) {
      taken = to - step;
      break;
    }
    refused = to - step;
  }
  return await bisect(taken, refused, isAccepted);
}

/** Binary search. */
async function bisect(
  taken: number,
  refused: number,
  isAccepted: (length: number) => Promise<boolean>,
): Promise<number> {
  while (refused - taken > 1) {
    const length = (taken + refused) >> 1;
    if (await isAccepted(length)) taken = length;
    else refused = length;
  }
  return taken;
}
