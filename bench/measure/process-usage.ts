// Reads CPU time and memory of processes from Linux' /proc. Returns null on systems without it.

import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";

export interface Usage {
  /** User and system time, in seconds. */
  readonly cpuSeconds: number;
  /** The largest resident set since `resetPeak`, in bytes. */
  readonly peakBytes: number;
}

/** USER_HZ is 100 on every Linux that Bun supports. */
const ticksPerSecond = 100;

export function readUsage(pid: number): Usage | null {
  if (!existsSync(`/proc/${pid}/stat`)) return null;
  const { own } = readTicks(pid);
  const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return { cpuSeconds: own / ticksPerSecond, peakBytes: Number(peak ?? 0) * 1024 };
}

export interface ProcessResources {
  readonly descriptors: number;
  readonly residentBytes: number;
}

/** The process must exist. */
export function readResources(pid: number): ProcessResources {
  const [, kB] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return { descriptors: readdirSync(`/proc/${pid}/fd`).length, residentBytes: Number(kB) * 1024 };
}

/** Of all descriptors: an embedded state keeps files open that it has read, so their number says nothing of what is left behind. */
export function openSockets(pid: number): number {
  const directory = `/proc/${pid}/fd`;
  const targets = readdirSync(directory).map((name) => linkTarget(`${directory}/${name}`));
  return targets.filter((target) => target.startsWith("socket:")).length;
}

function linkTarget(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    // Closed since it was listed.
    return "";
  }
}

/** CPU seconds of a Postgres server: of its postmaster, its running children and its exited children. */
export function readServerCpu(pid: number): number | null {
  const list = `/proc/${pid}/task/${pid}/children`;
  if (!existsSync(list)) return null;
  const { own, waitedFor } = readTicks(pid);
  const children = readFileSync(list, "utf8").trim().split(" ").filter(Boolean).map(Number);
  const ticks = children.reduce((sum, child) => sum + ticksOfChild(child), own + waitedFor);
  return ticks / ticksPerSecond;
}

/** https://man7.org/linux/man-pages/man5/proc_pid_clear_refs.5.html */
export function resetPeak(pid: number): void {
  const path = `/proc/${pid}/clear_refs`;
  if (existsSync(path)) writeFileSync(path, "5");
}

/** 0 if the process has exited in the meantime. */
function ticksOfChild(pid: number): number {
  try {
    return readTicks(pid).own;
  } catch {
    return 0;
  }
}

/** https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html */
function readTicks(pid: number): { own: number; waitedFor: number } {
  // The process name in parentheses may contain spaces. The fields after it start with number 3.
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
  const field = (number: number) => Number(fields[number - 3]);
  return { own: field(14) + field(15), waitedFor: field(16) + field(17) };
}
