// The processor's time, by which tests bound work that waits for nothing: others may keep the machine busy meanwhile.

/** What this process has used of the processors so far, in milliseconds, all of its threads together. */
export function usedMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
