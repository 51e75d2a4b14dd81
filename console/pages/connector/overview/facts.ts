// The figures of a connector, in the words of the page. Pure.

import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { RunProgress } from "../../../../src/connector/status.ts";
import { streams } from "../../../connector/replication.ts";
import { runBegan } from "../../../connector/run-id.ts";
import { bytes, grouped, perSecond, shortCount } from "../../../text/numbers.ts";
import { ago, duration, exact } from "../../../text/times.ts";

export interface Fact {
  readonly label: string;
  readonly value: string;
  /** A word or two below the value. */
  readonly note?: string;
  /** Names of objects and places in the log. */
  readonly isCode?: boolean;
}

/** What one wants to know first. `rate`: rows a second that became durable; null: not known. */
export function mainFacts({ connector, status }: GivenConnector, rate: number | null): readonly Fact[] {
  const { progress } = status;
  if (!progress) return [];
  if (!streams(connector)) return copiedFacts(progress.snapshot);
  // Of a copy whose first rows are being read, a speed of nothing tells nothing.
  const shownRate = status.state.snapshot && progress.snapshot.rows === 0 ? null : rate;
  const { lag_seconds, lag_bytes, latency_ms, rows_durable, rows_in, bytes_durable } = progress;
  return [
    {
      label: "Lag",
      value: lag_seconds === null ? "–" : duration(lag_seconds),
      // Nothing has been heard of the source's log in this run: no bytes then say nothing.
      ...((lag_seconds !== null || lag_bytes > 0) && { note: logText(lag_bytes, lag_seconds) }),
    },
    {
      label: "Rows a second",
      value: shownRate === null ? "–" : perSecond(shownRate),
      note: "durable at the sink",
    },
    {
      label: "Latency",
      value: latency_ms === null ? "–" : duration(latency_ms / 1000),
      note: "commit to durable",
    },
    { label: "Rows durable", value: shortCount(rows_durable), note: bytes(bytes_durable) },
    { label: "Rows in", value: shortCount(rows_in), note: waiting(rows_in - rows_durable) },
  ];
}

/** Of a connector that only copies. */
function copiedFacts(snapshot: RunProgress["snapshot"]): readonly Fact[] {
  return [
    { label: "Rows copied", value: shortCount(snapshot.rows), note: bytes(snapshot.bytes) },
    { label: "Tables copied", value: grouped(snapshot.tables_done), note: `of ${grouped(snapshot.tables)}` },
  ];
}

/** What one looks up. `severalReplicas`: it says something which of them runs the connector. */
export function furtherFacts(
  { connector, status, run_id, created_at }: GivenConnector,
  now: number,
  severalReplicas: boolean,
): readonly Fact[] {
  const { progress, state, next_snapshot_at: next } = status;
  const began = runBegan(run_id);
  const facts: (Fact | null)[] = [
    next ? { label: "Next copy", value: ago(Date.parse(next), now), note: exact(Date.parse(next)) } : null,
    state.realtime ? { label: "Slot", value: state.realtime.name, isCode: true } : null,
    progress?.resume_lsn
      ? {
          label: "Durable up to",
          value: progress.resume_lsn,
          isCode: true,
          note: "place in the source's log",
        }
      : null,
    progress && progress.requests > 0
      ? { label: "Requests answered", value: grouped(progress.requests) }
      : null,
    progress && streams(connector) && progress.snapshot.tables > 0
      ? {
          label: "Copied in this run",
          value: `${shortCount(progress.snapshot.rows)} rows`,
          note: `${grouped(progress.snapshot.tables_done)} of ${grouped(progress.snapshot.tables)} tables`,
        }
      : null,
    severalReplicas ? { label: "Replica", value: status.replica ?? "none", isCode: true } : null,
    began === null ? null : { label: "Run began", value: ago(began, now), note: exact(began) },
    { label: "Created", value: ago(Date.parse(created_at), now), note: exact(Date.parse(created_at)) },
  ];
  return facts.filter((fact) => fact !== null);
}

/** Before the stream begins no commit has been seen, so nobody knows for how long one waits. */
function logText(lagBytes: number, lagSeconds: number | null): string {
  return `${bytes(lagBytes)} of log${lagSeconds === null ? ", nothing streams yet" : ""}`;
}

function waiting(rows: number): string {
  return rows > 0 ? `${shortCount(rows)} on their way` : "all durable";
}
