// The results of a benchmark as a table for people and as JSON.

import { cpus, totalmem } from "node:os";
import type { Usage } from "./process-usage.ts";

export interface Result {
  readonly contender: string;
  readonly load: string;
  readonly rows: number;
  readonly seconds: number;
  readonly usage: Usage | null;
}

export function rowsPerSecond(result: Result): number {
  return result.rows / result.seconds;
}

export function describeMachine(): string {
  const processors = cpus();
  return `${processors.length} × ${processors[0]?.model.trim() ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GiB, Bun ${Bun.version}`;
}

export function formatLine(result: Result): string {
  const cells = [
    result.load.padEnd(26),
    result.contender.padEnd(18),
    Math.round(rowsPerSecond(result)).toLocaleString("en-US").padStart(10),
    `${result.seconds.toFixed(2)} s`.padStart(10),
  ];
  if (result.usage) {
    cells.push(`${result.usage.cpuSeconds.toFixed(2)} s`.padStart(10));
    cells.push(`${Math.round(result.usage.peakBytes / 2 ** 20)} MB`.padStart(9));
  }
  return cells.join(" ");
}

export const heading = [
  "load".padEnd(26),
  "by".padEnd(18),
  "rows/s".padStart(10),
  "time".padStart(10),
  "CPU".padStart(10),
  "peak".padStart(9),
].join(" ");

export function toJson(results: readonly Result[]): string {
  const detailed = results.map((result) => ({ ...result, rowsPerSecond: Math.round(rowsPerSecond(result)) }));
  return `${JSON.stringify({ at: new Date().toISOString(), machine: describeMachine(), results: detailed }, null, 2)}\n`;
}
