// How far a connector is behind, by the newest figures that are known. Pure.

import type { ConnectorStatus } from "../../src/connector/status.ts";
import { lastOf, type SampleSeries } from "./sample-series.ts";

export interface Lag {
  /** Null: not known, as nothing streams yet. */
  readonly seconds: number | null;
  /** Of the source's log; null: not known. */
  readonly bytes: number | null;
}

/** Samples come every few seconds, and a status seldom. A run that has just begun has no sample. */
export function lagOf(
  { progress }: ConnectorStatus,
  figures: SampleSeries<"lag_seconds" | "lag_bytes"> | null,
): Lag {
  const seconds = (figures && lastOf(figures.lag_seconds)) ?? progress?.lag_seconds ?? null;
  const bytes = (figures && lastOf(figures.lag_bytes)) ?? (progress?.lag_bytes || null);
  // Where a lag in time is known, no bytes are none.
  return { seconds, bytes: bytes ?? (seconds === null ? null : 0) };
}
