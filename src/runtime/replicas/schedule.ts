// The timers of this process.

/** Calls `work` after `ms`. Returns what prevents it. */
export function schedule(ms: number, work: () => void): () => void {
  const timer = setTimeout(work, ms);
  return () => clearTimeout(timer);
}
