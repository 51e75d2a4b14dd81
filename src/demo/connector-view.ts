// Renders a connector's status as one line: phase, rows copied of rows expected, changes per second, lag.

import type { ConnectorStatus } from "../connector/status.ts";

/** The number of durable rows at one moment. */
export interface RateSample {
  readonly atMs: number;
  readonly rows: number;
}

/** The time over which the rate is computed. */
const rateWindowMs = 2_000;

/** Adds the newest sample, and drops those older than the window needs. */
export function withSample(samples: readonly RateSample[], newest: RateSample): readonly RateSample[] {
  const first = samples[0];
  // A new run counts from zero again.
  const relevant = first && newest.rows < first.rows ? [] : samples;
  const beginning = relevant.findLastIndex((sample) => newest.atMs - sample.atMs >= rateWindowMs);
  return [...relevant.slice(Math.max(0, beginning)), newest];
}

/** Rows per second over the samples; 0 with fewer than two. */
export function rowsPerSecond(samples: readonly RateSample[]): number {
  const first = samples[0];
  const last = samples.at(-1);
  if (!first || !last || last.atMs <= first.atMs) return 0;
  return ((last.rows - first.rows) * 1000) / (last.atMs - first.atMs);
}

export function describeConnector(name: string, status: ConnectorStatus, rate: number): string {
  const progress = status.progress;
  const parts = [`  ${name.padEnd(13)}`, phase(status).padEnd(11)];
  if (!progress) return parts.join(" ");
  const { rows, estimated_rows } = progress.snapshot;
  parts.push(
    `copied ${number(rows)} of ${number(Math.max(rows, estimated_rows))}`.padEnd(27),
    `${number(rate)}/s`.padStart(10),
    `  lag ${bytes(progress.lag_bytes)}${progress.latency_ms === null ? "" : `, ${number(progress.latency_ms)} ms`}`,
  );
  return parts.join(" ");
}

/** The phase, with the error if the connector failed or retries. */
function phase(status: ConnectorStatus): string {
  const state = Object.keys(status.state)[0] ?? "";
  const { retry, failed } = status.status;
  if (failed) return `${state} failed: ${failed.reason}`;
  if (retry) return `${state} retry ${retry.attempt}: ${retry.reason}`;
  return state;
}

export function number(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

function bytes(value: number): string {
  if (value < 10_000) return `${number(value)} B`;
  if (value < 10_000_000) return `${number(value / 1000)} kB`;
  return `${number(value / 1_000_000)} MB`;
}
