// Identifies the log that an LSN is an address in. A promoted standby continues its primary's log on a new timeline.
// Another cluster, or one that was restored to an earlier moment, has a log of its own in which the checkpoint means
// nothing.
// https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-TIMELINES

import type { Client } from "pg";
import { type Checkpoint, reachOf } from "../../../change/checkpoint.ts";
import { formatLsn, type Lsn, parseLsn } from "../../../change/lsn.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { describeReach, type KnownRun, remedy } from "./slot-state.ts";

export interface SourceLog {
  /** The cluster's system identifier, the same on all physical copies. */
  readonly systemId: string;
  readonly timeline: number;
  /** Where each ancestor of this timeline was left for the next one, oldest first. Empty for timeline 1. */
  readonly ends: readonly TimelineEnd[];
}

export interface TimelineEnd {
  readonly timeline: number;
  readonly end: Lsn;
}

/**
 * The log's name: `system/timeline@begin`. Two standbys that were promoted independently have the same timeline number,
 * but hardly the same beginning.
 */
export function formatLog({ systemId, timeline, ends }: SourceLog): string {
  return `${systemId}/${nameTimeline(timeline, ends.at(-1))}`;
}

function nameTimeline(timeline: number, before: TimelineEnd | undefined): string {
  return before ? `${timeline}@${formatLsn(before.end)}` : `${timeline}`;
}

/** Runs on a replication connection. */
export async function readLog(replication: Client): Promise<SourceLog> {
  const { rows } = await replication.query<{ systemid: string; timeline: number }>("IDENTIFY_SYSTEM");
  const row = rows[0];
  if (!row) throw new MillraceError("protocol_violation", "IDENTIFY_SYSTEM returned nothing");
  const timeline = Number(row.timeline);
  return { systemId: row.systemid, timeline, ends: await readTimelineEnds(replication, timeline) };
}

async function readTimelineEnds(replication: Client, timeline: number): Promise<TimelineEnd[]> {
  if (timeline === 1) return [];
  try {
    const { rows } = await replication.query<{ content: Buffer | string }>(`TIMELINE_HISTORY ${timeline}`);
    return parseTimelineEnds(String(rows[0]?.content ?? ""));
  } catch (error) {
    // A server without its history files is identified by the timeline's number alone.
    if (sqlStateOf(error) === sqlState.undefinedFile) return [];
    throw error;
  }
}

/** Parses a history file: lines of timeline, LSN and reason, separated by tabs. */
export function parseTimelineEnds(text: string): TimelineEnd[] {
  return text.split("\n").flatMap((line) => {
    const [timeline, end] = line.trim().split(/\s+/);
    return timeline && end && /^\d+$/.test(timeline)
      ? [{ timeline: Number(timeline), end: parseLsn(end) }]
      : [];
  });
}

/**
 * Why the checkpoint's LSNs do not mean on this server what they meant when they were stored; null: they do. A checkpoint
 * without a log is trusted.
 *
 * `wasStandby`: it was stored while a standby was streamed from. That goes on in another timeline when it is promoted, or its
 * primary is replaced, and the stream does not tell: the checkpoint may lie beyond the timeline that it names. A server that takes
 * the standby's place lacks its slot, and one that was set back has an earlier one, which is checked next.
 */
export function judgeLog(
  now: SourceLog,
  checkpoint: Checkpoint,
  { wasStandby = false, isResumable = false }: KnownRun = {},
): MillraceError | null {
  if (checkpoint.log === undefined || checkpoint.log === formatLog(now)) return null;
  const slash = checkpoint.log.indexOf("/");
  const systemId = checkpoint.log.slice(0, slash);
  const known = checkpoint.log.slice(slash + 1);
  if (systemId !== now.systemId) {
    return new MillraceError(
      "source_replaced",
      `Another database cluster answers at the source's address (system identifier ${now.systemId} instead of ${systemId}). ` +
        "Let the address lead to the right server, or send the command ReInitialize to copy the tables from this one.",
    );
  }
  const left = now.ends.find((end, i) => nameTimeline(end.timeline, now.ends[i - 1]) === known);
  if (left && (wasStandby || left.end >= reachOf(checkpoint))) return null;
  const mismatch = left
    ? `left timeline ${left.timeline} at ${formatLsn(left.end)}, before ${describeReach(checkpoint)}`
    : `did not grow out of timeline ${known}, which the checkpoint is of`;
  return new MillraceError(
    "source_behind",
    `The source's log, on timeline ${now.timeline}, ${mismatch}: it was restored from a backup, or a standby was promoted that ` +
      "had not received everything. The sink may hold changes that the source does not. " +
      `To take over what the source has, ${remedy(isResumable)}`,
  );
}
