// Creates, reads and drops the replication slot, which retains the server's WAL from the last acknowledged LSN on.
// slot-state.ts judges its state; slot-holder.ts frees it of a walsender.
// https://www.postgresql.org/docs/current/logicaldecoding-explanation.html#LOGICALDECODING-REPLICATION-SLOTS

import { type Client, escapeIdentifier } from "pg";
import { type Lsn, parseLsn } from "../../../change/lsn.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { serverVersion } from "../../../connection/server-version.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { DroppedBy } from "../../source.ts";
import { anyOfThisService, freeSlot } from "./slot-holder.ts";
import { type SlotState, slotMismatch, syncedSlot } from "./slot-state.ts";

export interface NewSlot {
  /** The stream has the transactions whose commit record starts here or later; the snapshot has the earlier ones. */
  readonly consistentPoint: Lsn;
  /** Can be imported while the connection that created it runs nothing else. */
  readonly snapshotName: string;
}

export type SlotKind = "permanent" | "temporary";

/** The end of the server's log: of what is flushed, or on a standby replayed. */
export const logEndSql =
  "case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_flush_lsn() end";

/** Making a slot writes a record to the log. So its place is behind that of every slot that was made before. */
const placeSql = "concat_ws(' ', s.restart_lsn, s.confirmed_flush_lsn, s.catalog_xmin)";

/**
 * Goes by name for columns that versions 16 and 17 added. Version 16 tells no reason, and keeps the place of a slot whose log is not what was
 * removed.
 */
export const invalidationReasonSql = `coalesce(to_jsonb(s) ->> 'invalidation_reason',
  case when to_jsonb(s) @> '{"conflicting": true}' and s.restart_lsn is not null then 'rows_removed' end)`;

const stateQuery = `
select s.slot_name is not null as exists, s.plugin, s.database, coalesce(s.database = current_database(), false) as "isOfDatabase",
  s.confirmed_flush_lsn::text as "confirmedFlushLsn", ${placeSql} as place,
  s.catalog_xmin::text::float8 as "catalogXmin", s.wal_status as "walStatus",
  ${invalidationReasonSql} as "invalidationReason",
  current_setting('max_slot_wal_keep_size') as "maxSlotWalKeepSize", current_setting('wal_level') as "walLevel",
  (${logEndSql})::text as "logEnd", pg_is_in_recovery() as "isInRecovery",
  coalesce((to_jsonb(s) ->> 'synced')::bool, false) as "isSynced"
from (values ($1::text)) as wanted (name)
left join pg_replication_slots s on s.slot_name = wanted.name`;

/** The end of the log, flushed or not: behind the commit record of every transaction that an earlier query has seen. */
export async function readInsertLsn(client: Client): Promise<Lsn> {
  const { rows } = await client.query<{ end: string }>(
    "select (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end)::text as end",
  );
  return parseLsn(rows[0]!.end);
}

/** The state of the slot, and the server settings that it depends on. */
export async function readSlotState(client: Client, name: string): Promise<SlotState> {
  const { rows } = await client.query<SlotState>(stateQuery, [name]);
  const state = rows[0];
  if (!state) throw new Error("VALUES gave no row");
  return state;
}

/** Failover slots exist since version 17. */
const failoverSince = 170_000;

const refusals: readonly string[] = [
  sqlState.featureNotSupported,
  sqlState.insufficientPrivilege,
  sqlState.invalidParameterValue,
  sqlState.syntaxError,
];

/**
 * Creates a slot on a replication connection and exports its snapshot. A permanent one becomes a failover slot where
 * the server allows it, which needs no privilege beyond REPLICATION.
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
  // The old syntax of the options, which every version understands.
  return await create(replication, `${escapeIdentifier(name)} ${temporary}LOGICAL pgoutput EXPORT_SNAPSHOT`);
}

/** Whether a permanent slot may be a failover slot. On a standby it may not. */
async function mayFailOver(control: Client): Promise<boolean> {
  return (await serverVersion(control)) >= failoverSince && !(await isStandby(control));
}

export async function isStandby(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ yes: boolean }>("select pg_is_in_recovery() as yes");
  return rows[0]?.yes === true;
}

/** Replication commands must be in upper case. */
async function create(replication: Client, rest: string): Promise<NewSlot> {
  const { rows } = await replication.query<{ consistent_point: string; snapshot_name: string }>(
    `CREATE_REPLICATION_SLOT ${rest}`,
  );
  const row = rows[0];
  if (!row) throw new MillraceError("protocol_violation", "CREATE_REPLICATION_SLOT returned nothing");
  return { consistentPoint: parseLsn(row.consistent_point), snapshotName: row.snapshot_name };
}

const dropSql = `select pg_drop_replication_slot(s.slot_name) from pg_replication_slots s where s.slot_name = $1 and ${placeSql} = $2`;

const dropMs = 10_000;

/**
 * Drops the slot if it exists. Terminates a walsender of this service that reads from it. Throws `slot_active` when something
 * still reads from it, `slot_mismatch` when the slot is not ours, `lease_lost`.
 *
 * A process that was frozen must not drop what a higher term has made meanwhile. So the slot that goes was there before
 * `confirm` told that there was no higher term yet.
 */
export async function dropSlot(
  client: Client,
  name: string,
  signal: AbortSignal,
  by: DroppedBy = {},
): Promise<void> {
  const deadline = performance.now() + dropMs;
  while (true) {
    const state = await readSlotState(client, name);
    if (!state.exists) return;
    const mismatch = slotMismatch(name, state);
    if (mismatch) throw mismatch;
    if (state.isInRecovery && state.isSynced) throw syncedSlot(name);
    await freeSlot(client, name, anyOfThisService(by), signal, deadline - performance.now());
    const { place } = await readSlotState(client, name);
    await by.confirm?.();
    try {
      await client.query(dropSql, [name, place]);
    } catch (error) {
      const state = sqlStateOf(error);
      if (state !== sqlState.objectInUse && state !== sqlState.undefinedObject) throw error;
    }
  }
}
