// Waits for a while, or until it is no longer wanted.

// A timer of more than 2^31 ms fires at once, and a receiver may ask for more in its Retry-After.
const longestTimerMs = 2 ** 31 - 1;

/** Ends early, without an error, when the signal does. */
export async function sleepOrStop(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    signal.addEventListener("abort", finish);
  });
}

/** Resolves after `ms`. Rejects with the signal's reason once it is aborted. */
export async function sleepOrThrow(ms: number, signal: AbortSignal): Promise<void> {
  for (let left = ms; ; left -= longestTimerMs) {
    await oneTimer(Math.min(left, longestTimerMs), signal);
    if (left <= longestTimerMs) return;
  }
}

function oneTimer(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop, { once: true });
  });
}

/** Resolves when all that was to be done at once has been done. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
