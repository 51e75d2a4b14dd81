// The processor's time, by which tests bound work that waits for nothing: others may keep the machine busy meanwhile.

import { readServerCpu } from "../../bench/measure/process-usage.ts";
import type { PostgresServer } from "./servers/postgres-server.ts";

/** What this process has used of the processors so far, in milliseconds, all of its threads together. */
export function usedMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** What it and a server have used: for work that a server's session does. */
export function usedMsWith({ pid }: Pick<PostgresServer, "pid">): number {
  return usedMs() + (pid === undefined ? 0 : (readServerCpu(pid) ?? 0) * 1000);
}
