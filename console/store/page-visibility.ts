// Whether somebody can see the page.

/** Returns when the page is shown, or `ended` aborts. */
export function untilShown(ended: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !ended.aborted) return;
      document.removeEventListener("visibilitychange", look);
      ended.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    ended.addEventListener("abort", look);
    look();
  });
}

/** Calls `run` with a signal that aborts when the page is hidden, or `ended` aborts. */
export async function whileShown(
  ended: AbortSignal,
  run: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const hidden = new AbortController();
  const look = () => {
    if (document.hidden) hidden.abort();
  };
  document.addEventListener("visibilitychange", look);
  look();
  try {
    await run(AbortSignal.any([ended, hidden.signal]));
  } finally {
    document.removeEventListener("visibilitychange", look);
  }
}
