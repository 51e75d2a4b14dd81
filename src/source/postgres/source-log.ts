// Which log an LSN is an address in. A promoted standby goes on with the log of its primary under a new timeline; another
// cluster, or one that was restored to an earlier moment, has a log of its own in which a checkpoint means nothing.
// https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-TIMELINES

import type { Client } from "pg";
import type { Checkpoint } from "../../change/checkpoint.ts";
import { formatLsn, type Lsn, parseLsn } from "../../change/lsn.ts";
import { MillraceError } from "../../errors/millrace-error.ts";

export interface SourceLog {
  /** Of the cluster: the same on all its physical copies. */
  readonly systemId: string;
  readonly timeline: number;
}

/** Where a timeline was left for the next one. */
export interface TimelineEnd {
  readonly timeline: number;
  readonly end: Lsn;
}

export function formatLog({ systemId, timeline }: SourceLog): string {
  return `${systemId}/${timeline}`;
}

/** Asks on a replication connection. */
export async function readLog(replication: Client): Promise<SourceLog> {
  const { rows } = await replication.query<{ systemid: string; timeline: number }>("IDENTIFY_SYSTEM");
  const row = rows[0];
  if (!row) throw new MillraceError("protocol_violation", "IDENTIFY_SYSTEM returned nothing");
  return { systemId: row.systemid, timeline: Number(row.timeline) };
}

/** The timelines that this one grew out of, oldest first. The first of all has none. */
export async function readTimelineEnds(replication: Client, timeline: number): Promise<TimelineEnd[]> {
  if (timeline === 1) return [];
  const { rows } = await replication.query<{ content: Buffer | string }>(`TIMELINE_HISTORY ${timeline}`);
  return parseTimelineEnds(String(rows[0]?.content ?? ""));
}

/** A history file: lines of timeline, LSN and a remark, with tabs between. */
export function parseTimelineEnds(text: string): TimelineEnd[] {
  return text.split("\n").flatMap((line) => {
    const [timeline, end] = line.trim().split(/\s+/);
    return timeline && end && /^\d+$/.test(timeline)
      ? [{ timeline: Number(timeline), end: parseLsn(end) }]
      : [];
  });
}

/**
 * What stands in the way of a checkpoint's LSN meaning on this server what it meant; null: nothing. A checkpoint that does
 * not say which log it is of is believed. `ends`: of the timelines that the server's grew out of.
 */
export function judgeLog(
  now: SourceLog,
  ends: readonly TimelineEnd[],
  checkpoint: Checkpoint,
): MillraceError | null {
  if (checkpoint.log === undefined) return null;
  const [systemId, timelineText] = checkpoint.log.split("/");
  if (systemId !== now.systemId) {
    return new MillraceError(
      "source_replaced",
      `Another database cluster answers at the source's address (system identifier ${now.systemId} instead of ${systemId}). ` +
        "Let the connector point to the right server, or send the command ReIntialize to copy the tables from this one.",
    );
  }
  const timeline = Number(timelineText);
  if (timeline === now.timeline) return null;
  const left = ends.find((end) => end.timeline === timeline);
  if (left && left.end >= checkpoint.resumeLsn) return null;
  const place = left
    ? `left timeline ${timeline} at ${formatLsn(left.end)}, before the checkpoint ${formatLsn(checkpoint.resumeLsn)}`
    : `did not grow out of timeline ${timeline}, which the checkpoint is of`;
  return new MillraceError(
    "source_behind",
    `The source's log, on timeline ${now.timeline}, ${place}: it was restored from a backup, or a standby was promoted that ` +
      "had not received everything. The sink may hold changes that the source does not. " +
      "Send the command ReIntialize to copy the tables again.",
  );
}
