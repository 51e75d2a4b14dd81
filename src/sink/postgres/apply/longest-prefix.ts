// Finds where a sequence of changes begins to be refused, by trying beginnings of it. It knows nothing of what they are.

/**
 * The length of a beginning that is taken while the one that is longer by one is refused. The empty beginning is taken, and
 * `count` changes are refused. The front is tried first: what was refused before lies there when it is tried again.
 */
export async function longestPrefix(
  count: number,
  isTaken: (length: number) => Promise<boolean>,
): Promise<number> {
  let taken = 0;
  let refused = count;
  for (let length = 1; length < refused; length *= 2) {
    if (await isTaken(length)) taken = length;
    else refused = length;
  }
  return await lastTakenBetween(taken, refused, isTaken);
}

/**
 * The same, from the end: a beginning of at least `from` that is taken while the one that is longer by one is refused. The one of
 * `from` is taken, and the one of `to` is refused.
 */
export async function lastTaken(
  from: number,
  to: number,
  isTaken: (length: number) => Promise<boolean>,
): Promise<number> {
  let taken = from;
  let refused = to;
  for (let step = 1; to - step > from; step *= 2) {
    if (await isTaken(to - step)) {
      taken = to - step;
      break;
    }
    refused = to - step;
  }
  return await lastTakenBetween(taken, refused, isTaken);
}

/** By halves. */
async function lastTakenBetween(
  taken: number,
  refused: number,
  isTaken: (length: number) => Promise<boolean>,
): Promise<number> {
  while (refused - taken > 1) {
    const length = (taken + refused) >> 1;
    if (await isTaken(length)) taken = length;
    else refused = length;
  }
  return taken;
}
