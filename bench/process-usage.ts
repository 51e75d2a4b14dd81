// CPU time and peak memory of a process, from Linux' /proc. Null where there is none.

import { existsSync, readFileSync, writeFileSync } from "node:fs";

export interface Usage {
  /** User and system time, in seconds. */
  readonly cpuSeconds: number;
  /** Largest resident set since `resetPeak`, in bytes. */
  readonly peakBytes: number;
}

/** USER_HZ, which is 100 on every Linux that Bun runs on. */
const ticksPerSecond = 100;

/** https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html */
export function readUsage(pid: number): Usage | null {
  if (!existsSync(`/proc/${pid}/stat`)) return null;
  // The name in parentheses may hold blanks; behind it the fields are numbered from 3.
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
  const ticks = Number(fields[14 - 3]) + Number(fields[15 - 3]);
  const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return { cpuSeconds: ticks / ticksPerSecond, peakBytes: Number(peak ?? 0) * 1024 };
}

/** https://man7.org/linux/man-pages/man5/proc_pid_clear_refs.5.html */
export function resetPeak(pid: number): void {
  const path = `/proc/${pid}/clear_refs`;
  if (existsSync(path)) writeFileSync(path, "5");
}
