// The replication slot: it keeps the server's log for us from the place that was acknowledged last. What its state means
// is in slot-state.ts; who may be made to let go of it is in slot-holder.ts.
// https://www.postgresql.org/docs/current/logicaldecoding-explanation.html#LOGICALDECODING-REPLICATION-SLOTS

import { type Client, escapeIdentifier } from "pg";
import { type Lsn, parseLsn } from "../../../change/lsn.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { serverVersion } from "../../../connection/server-version.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { freeSlot, isOfThisService } from "./slot-holder.ts";
import { type SlotState, slotMismatch } from "./slot-state.ts";

export interface NewSlot {
  /** Commit records from here on are streamed; what is before is in the snapshot. */
  readonly consistentPoint: Lsn;
  /** Importable while the creating connection runs nothing else. */
  readonly snapshotName: string;
}

export type SlotKind = "permanent" | "temporary";

/** Where the server's log ends: what it has flushed, or on a standby replayed. */
export const logEndSql =
  "case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_flush_lsn() end";

/** Columns that came with 16 and 17 are looked up by name. */
const stateQuery = `
select s.slot_name is not null as exists, s.plugin, s.database, coalesce(s.database = current_database(), false) as "isOfDatabase",
  s.confirmed_flush_lsn::text as "confirmedFlushLsn", s.wal_status as "walStatus",
  to_jsonb(s) ->> 'invalidation_reason' as "invalidationReason",
  current_setting('max_slot_wal_keep_size') as "maxSlotWalKeepSize", current_setting('wal_level') as "walLevel",
  (${logEndSql})::text as "logEnd"
from (values ($1::text)) as wanted (name)
left join pg_replication_slots s on s.slot_name = wanted.name`;

/** Where the log ends, flushed or not: behind the commit record of every transaction that an earlier query has seen. */
export async function readInsertedEnd(client: Client): Promise<Lsn> {
  const { rows } = await client.query<{ end: string }>(
    "select (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end)::text as end",
  );
  return parseLsn(rows[0]!.end);
}

/** The slot as it is now, and what bears on it of the server. */
export async function readSlotState(client: Client, name: string): Promise<SlotState> {
  const { rows } = await client.query<SlotState>(stateQuery, [name]);
  const state = rows[0];
  if (!state) throw new Error("VALUES gave no row");
  return state;
}

/** Slots that standbys take over came with 17. */
const failoverSince = 170_000;

const refusals: readonly string[] = [
  sqlState.featureNotSupported,
  sqlState.insufficientPrivilege,
  sqlState.invalidParameterValue,
  sqlState.syntaxError,
];

/**
 * Makes a slot on a replication connection and exports its snapshot. A permanent one is a failover slot where the server
 * can do that, which takes no privilege beyond REPLICATION; where it refuses, the slot is made without.
 * https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-CREATE-REPLICATION-SLOT
 */
export async function createSlot(
  replication: Client,
  control: Client,
  name: string,
  kind: SlotKind,
): Promise<NewSlot> {
  if (kind === "permanent" && (await mayFailOver(control))) {
    try {
      return await create(
        replication,
        `${escapeIdentifier(name)} LOGICAL pgoutput (SNAPSHOT 'export', FAILOVER)`,
      );
    } catch (error) {
      if (!refusals.includes(sqlStateOf(error) ?? "")) throw error;
    }
  }
  const temporary = kind === "temporary" ? "TEMPORARY " : "";
  // The old form of the options, which every version understands.
  return await create(replication, `${escapeIdentifier(name)} ${temporary}LOGICAL pgoutput EXPORT_SNAPSHOT`);
}

/** Whether a permanent slot may be marked as one that standbys take over: a standby's own may not. */
async function mayFailOver(control: Client): Promise<boolean> {
  if ((await serverVersion(control)) < failoverSince) return false;
  const { rows } = await control.query<{ isStandby: boolean }>(`select pg_is_in_recovery() as "isStandby"`);
  return rows[0]?.isStandby === false;
}

/** The grammar of replication commands knows upper case only. */
async function create(replication: Client, rest: string): Promise<NewSlot> {
  const { rows } = await replication.query<{ consistent_point: string; snapshot_name: string }>(
    `CREATE_REPLICATION_SLOT ${rest}`,
  );
  const row = rows[0];
  if (!row) throw new MillraceError("protocol_violation", "CREATE_REPLICATION_SLOT returned nothing");
  return { consistentPoint: parseLsn(row.consistent_point), snapshotName: row.snapshot_name };
}

/**
 * Drops the slot if it is there. A walsender of this service that still holds it is told to end, and waited for at most
 * `boundMs`. Throws `slot_active` when it is held then, or by somebody else; `slot_mismatch` when it is not of our making.
 */
export async function dropSlot(
  client: Client,
  name: string,
  signal: AbortSignal,
  boundMs = 10_000,
): Promise<void> {
  const deadline = performance.now() + boundMs;
  while (true) {
    const state = await readSlotState(client, name);
    if (!state.exists) return;
    const mismatch = slotMismatch(name, state);
    if (mismatch) throw mismatch;
    await freeSlot(client, name, isOfThisService, signal, deadline - performance.now());
    try {
      await client.query("select pg_drop_replication_slot($1)", [name]);
    } catch (error) {
      const state = sqlStateOf(error);
      if (state !== sqlState.objectInUse && state !== sqlState.undefinedObject) throw error;
    }
  }
}
