// Measures how much WAL the connector's slot retains, and warns when it becomes dangerous. It grows during a copy,
// because nothing is acknowledged meanwhile, and while a transaction stays open at the source.
// https://www.postgresql.org/docs/current/view-pg-replication-slots.html

import type { Client } from "pg";
import { type Lsn, parseLsn } from "../../../change/lsn.ts";
import type { KeptLog } from "../../source.ts";
import { describeOldestWriter } from "./oldest-writer.ts";
import { invalidationReasonSql, logEndSql } from "./slot.ts";
import { invalidation, remedy } from "./slot-state.ts";

export interface KeptLogFacts {
  readonly bytes: number;
  /** `safe_wal_size`; null: no limit. */
  readonly safeBytes: number | null;
  /** Of a lost slot: as `invalidation` takes it. Null: it is not lost. */
  readonly lostBy: string | null;
  /** `max_slot_wal_keep_size`; null: no limit. */
  readonly limitBytes: number | null;
  /** The sink has most of it. */
  readonly isAcknowledged: boolean;
  /** A transaction, or standbys, for which the slot keeps it, and what to do; null: there is none, or it was not asked for. */
  readonly heldFor: string | null;
  readonly catalogXmin: number | null;
  readonly logEnd: Lsn;
}

const gigabyte = 1024 ** 3;
/** Worth a warning where the server has no limit. */
const muchBytes = 10 * gigabyte;
/** The part of the server's limit that is worth a warning: somebody needs time to act. */
const muchOfLimit = 0.5;

/** Null: there is no slot. */
export async function readKeptLog(client: Client, slot: string): Promise<KeptLogFacts | null> {
  const { rows } = await client.query<{
    bytes: number;
    unacknowledged: number;
    active: boolean;
    safe: number | null;
    lost_by: string | null;
    limit_mb: number;
    end: string;
    xmin: number | null;
  }>(
    `select coalesce((${logEndSql})::text, '0/0') as end,
       coalesce(pg_wal_lsn_diff(${logEndSql}, restart_lsn), 0)::float8 as bytes,
       case when wal_status = 'lost' then coalesce(${invalidationReasonSql}, 'wal_removed') end as lost_by,
       coalesce(pg_wal_lsn_diff(${logEndSql}, confirmed_flush_lsn), 0)::float8 as unacknowledged, active,
       safe_wal_size::float8 as safe, catalog_xmin::text::float8 as xmin,
       (select setting::float8 from pg_settings where name = 'max_slot_wal_keep_size') as limit_mb
     from pg_replication_slots s where slot_name = $1`,
    [slot],
  );
  const row = rows[0];
  if (!row) return null;
  const limitBytes = row.limit_mb < 0 ? null : row.limit_mb * 1024 ** 2;
  const { safe: safeBytes, lost_by: lostBy, xmin: catalogXmin } = row;
  const bytes = Math.max(0, row.bytes);
  // The server releases nothing of a slot from which nobody reads.
  const isAcknowledged = row.active && row.unacknowledged < bytes / 2;
  const heldFor = isAcknowledged && isMuch(bytes, limitBytes) ? await describeOldestWriter(client) : null;
  const logEnd = parseLsn(row.end);
  return { bytes, safeBytes, lostBy, limitBytes, isAcknowledged, heldFor, catalogXmin, logEnd };
}

function isMuch(bytes: number, limitBytes: number | null): boolean {
  return bytes >= (limitBytes === null ? muchBytes : limitBytes * muchOfLimit);
}

/** What somebody should know of it; null: there is no slot. */
export async function examineKeptLog(
  client: Client,
  slot: string,
  isResumable: boolean,
): Promise<KeptLog | null> {
  const facts = await readKeptLog(client, slot);
  return facts && judgeKeptLog(slot, facts, isResumable);
}

/** Adds a warning that says what to do; null: there is no need. Pure. */
export function judgeKeptLog(
  slot: string,
  facts: Omit<KeptLogFacts, "logEnd" | "catalogXmin">,
  isResumable: boolean,
): KeptLog {
  const { bytes, safeBytes, lostBy, limitBytes, isAcknowledged, heldFor } = facts;
  const limit = limitBytes === null ? "-1" : inGigabytes(limitBytes);
  if (lostBy !== null) {
    const warning =
      `Replication slot ${slot} is lost, and nothing goes on from it, whatever is copied now: ${invalidation(lostBy, limit)} ` +
      `Then stop the connector, and ${remedy(isResumable)}`;
    return { bytes, safeBytes: 0, warning };
  }
  const isReleasedSoon = isAcknowledged && heldFor === null;
  if (isReleasedSoon || !isMuch(bytes, limitBytes)) return { bytes, safeBytes, warning: null };
  const why = heldFor === null ? "until the sink has what comes before." : `for ${heldFor}`;
  const danger =
    limitBytes === null
      ? "See to it that the source's disk has room."
      : `With more than max_slot_wal_keep_size (${limit}) the slot is lost; then send Resume, or ReInitialize where the sink is no Postgres. ` +
        "Run: ALTER SYSTEM SET max_slot_wal_keep_size = -1; SELECT pg_reload_conf(); and see to it that the disk has room.";
  const kept = `Replication slot ${slot} keeps ${inGigabytes(bytes)} of the source's log`;
  return { bytes, safeBytes, warning: `${kept} ${why} ${danger}` };
}

function inGigabytes(bytes: number): string {
  return `${(bytes / gigabyte).toFixed(bytes < 10 * gigabyte ? 2 : 0)} GB`;
}
