// Summarises a benchmark's measurements, as a table for people and as JSON.

import { cpus, totalmem } from "node:os";
import type { ContenderName } from "../contenders/contender.ts";
import type { Goal } from "../loads.ts";
import type { Latency } from "./latency.ts";
import type { Usage } from "./process-usage.ts";

export interface Measurement {
  readonly contender: ContenderName;
  readonly load: string;
  readonly count: number;
  readonly seconds: number;
  /** Of the replicating process. Null if replication runs inside the servers. */
  readonly service: Usage | null;
  readonly sourceCpuSeconds: number;
  readonly sinkCpuSeconds: number;
  readonly sinkWalBytes: number;
}

/** The median of each figure over all rounds. */
export interface Medians {
  readonly rate: number;
  readonly serviceCpuSeconds: number | null;
  readonly peakBytes: number | null;
  readonly sourceCpuSeconds: number;
  readonly sinkCpuSeconds: number;
  readonly sinkWalBytes: number;
}

export interface LoadSummary {
  readonly load: string;
  readonly count: number;
  readonly goal: Goal;
  readonly by: Partial<Record<ContenderName, Medians>>;
  /**
   * millrace's figures relative to another's: `rate`, `sinkCpu` and `sinkWal` to Postgres' own subscription, `ofStream`
   * to the rate of a stream whose sink discards everything, `ofPipe` to the rate of two psql processes joined by a pipe.
   */
  readonly ratios: {
    readonly [figure in "rate" | "sinkCpu" | "sinkWal" | "ofStream" | "ofPipe"]: number | null;
  };
}

export function summarise(load: string, goal: Goal, measurements: readonly Measurement[]): LoadSummary {
  const names = [...new Set(measurements.map(({ contender }) => contender))];
  const by: LoadSummary["by"] = Object.fromEntries(
    names.map((name) => [name, medians(measurements.filter(({ contender }) => contender === name))]),
  );
  const { millrace, postgres, discard, psql } = by;
  return {
    load,
    count: measurements[0]?.count ?? 0,
    goal,
    by,
    ratios: {
      rate: ratio(millrace?.rate, postgres?.rate),
      sinkCpu: ratio(millrace?.sinkCpuSeconds, postgres?.sinkCpuSeconds),
      sinkWal: ratio(millrace?.sinkWalBytes, postgres?.sinkWalBytes),
      ofStream: ratio(millrace?.rate, discard?.rate),
      ofPipe: ratio(millrace?.rate, psql?.rate),
    },
  };
}

function medians(runs: readonly Measurement[]): Medians {
  const of = (figure: (run: Measurement) => number) => median(runs.map(figure));
  const isProcess = runs[0]?.service != null;
  return {
    rate: of(({ count, seconds }) => count / seconds),
    serviceCpuSeconds: isProcess ? of(({ service }) => service?.cpuSeconds ?? 0) : null,
    // The maximum, because a median would hide a peak.
    peakBytes: isProcess ? Math.max(...runs.map(({ service }) => service?.peakBytes ?? 0)) : null,
    sourceCpuSeconds: of(({ sourceCpuSeconds }) => sourceCpuSeconds),
    sinkCpuSeconds: of(({ sinkCpuSeconds }) => sinkCpuSeconds),
    sinkWalBytes: of(({ sinkWalBytes }) => sinkWalBytes),
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

function ratio(ours: number | undefined, theirs: number | undefined): number | null {
  return ours === undefined || theirs === undefined || theirs === 0 ? null : ours / theirs;
}

export function describeMachine(): string {
  const processors = cpus();
  return `${processors.length} × ${processors[0]?.model.trim() ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GiB, Bun ${Bun.version}`;
}

const widths = [28, 9, 10, 9, 11, 11, 11, 9, 11, 9, 11, 9, 8];

export const heading = row([
  ...["load", "by", "rate/s", "service", "source CPU", "sink CPU", "sink WAL", "peak"],
  ...["rate:native", "CPU:native", "WAL:native", "of stream", "of psql"],
]);

export function formatSummary({ load, goal, by, ratios }: LoadSummary): string {
  return Object.entries(by)
    .map(([name, of]) =>
      row([
        load,
        name,
        Math.round(of.rate).toLocaleString("en-US"),
        of.serviceCpuSeconds === null ? "" : seconds(of.serviceCpuSeconds),
        seconds(of.sourceCpuSeconds),
        seconds(of.sinkCpuSeconds),
        megabytes(of.sinkWalBytes),
        of.peakBytes === null ? "" : megabytes(of.peakBytes),
        ...(name === "millrace"
          ? [
              withGoal(ratios.rate, goal.rate),
              withGoal(ratios.sinkCpu, goal.sinkCpu),
              withGoal(ratios.sinkWal, goal.sinkWal),
              withGoal(ratios.ofStream, undefined),
              withGoal(ratios.ofPipe, goal.ofPipe),
            ]
          : []),
      ]),
    )
    .join("\n");
}

export function formatLatency({ contender, transactionsPerSecond, p50Ms, p99Ms }: Latency): string {
  const rate = `${Math.round(transactionsPerSecond).toLocaleString("en-US")} transactions/s`;
  return `latency at ${rate}, ${contender}: p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`;
}

function row(cells: readonly string[]): string {
  return cells
    .map((cell, i) => (i < 2 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)))
    .join(" ")
    .trimEnd();
}

function seconds(value: number): string {
  return `${value.toFixed(2)} s`;
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20)} MB`;
}

/** A ratio, with its goal in parentheses. */
function withGoal(value: number | null, goal: number | undefined): string {
  if (value === null) return "";
  return goal === undefined ? value.toFixed(2) : `${value.toFixed(2)} (${goal})`;
}
