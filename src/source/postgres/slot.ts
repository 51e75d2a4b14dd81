// The replication slot: it keeps the server's log for us from the place that was acknowledged last.
// https://www.postgresql.org/docs/current/logicaldecoding-explanation.html#LOGICALDECODING-REPLICATION-SLOTS

import { type Client, escapeIdentifier } from "pg";
import type { Checkpoint } from "../../change/checkpoint.ts";
import { formatLsn, type Lsn, parseLsn } from "../../change/lsn.ts";
import { sqlStateOf } from "../../connection/postgres-failure.ts";
import { MillraceError } from "../../errors/millrace-error.ts";

export interface NewSlot {
  /** Commit records from here on are streamed; what is before is in the snapshot. */
  readonly consistentPoint: Lsn;
  /** Importable while the creating connection runs nothing else. */
  readonly snapshotName: string;
}

interface SlotRow {
  plugin: string;
  database: string;
  is_current_database: boolean;
  active_pid: number | null;
  confirmed_flush_lsn: string | null;
  wal_status: string | null;
  log_end: string;
}

/** Where the server's log ends: what it has flushed, or on a standby replayed. */
export const logEndSql =
  "case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_flush_lsn() end";

const slotQuery = `
select plugin, database, database = current_database() as is_current_database, active_pid,
  confirmed_flush_lsn::text, wal_status, (${logEndSql})::text as log_end
from pg_replication_slots where slot_name = $1`;

/**
 * Makes a slot on a replication connection and exports its snapshot. The old form of the options is understood by
 * every version. The grammar of replication commands knows upper case only.
 */
export async function createSlot(
  replication: Client,
  name: string,
  kind: "permanent" | "temporary",
): Promise<NewSlot> {
  const temporary = kind === "temporary" ? "TEMPORARY " : "";
  const { rows } = await replication.query<{ consistent_point: string; snapshot_name: string }>(
    `CREATE_REPLICATION_SLOT ${escapeIdentifier(name)} ${temporary}LOGICAL pgoutput EXPORT_SNAPSHOT`,
  );
  const row = rows[0];
  if (!row) throw new MillraceError("protocol_violation", "CREATE_REPLICATION_SLOT returned nothing");
  return { consistentPoint: parseLsn(row.consistent_point), snapshotName: row.snapshot_name };
}

/** Throws unless the slot is there, is ours, still has its log, and is not ahead of `checkpoint`. */
export async function checkSlot(client: Client, name: string, checkpoint: Checkpoint): Promise<void> {
  const { rows } = await client.query<SlotRow>(slotQuery, [name]);
  const slot = rows[0];
  if (!slot) {
    throw new MillraceError(
      "slot_missing",
      `Replication slot ${name} no longer exists: changes since ${formatLsn(checkpoint.resumeLsn)} may be lost. ` +
        "Send the command ReIntialize to copy the tables again.",
    );
  }
  if (slot.plugin !== "pgoutput" || !slot.is_current_database) {
    throw new MillraceError(
      "conflict",
      `Replication slot ${name} belongs to database ${slot.database} and plugin ${slot.plugin}: it is not this connector's.`,
    );
  }
  if (slot.wal_status === "lost" || slot.confirmed_flush_lsn === null) {
    throw new MillraceError(
      "slot_invalidated",
      `Replication slot ${name} is invalidated: the server removed the log it needs. Raise max_slot_wal_keep_size, ` +
        "then send the command ReIntialize to copy the tables again.",
    );
  }
  if (parseLsn(slot.log_end) < checkpoint.resumeLsn) {
    throw new MillraceError(
      "source_behind",
      `The source's log ends at ${slot.log_end}, before the checkpoint ${formatLsn(checkpoint.resumeLsn)}: it was restored ` +
        "from a backup, or is another server. Send the command ReIntialize to copy the tables again.",
    );
  }
  const confirmed = parseLsn(slot.confirmed_flush_lsn);
  if (confirmed > checkpoint.resumeLsn) {
    throw new MillraceError(
      "slot_ahead",
      `Replication slot ${name} stands at ${formatLsn(confirmed)}, ahead of the checkpoint ` +
        `${formatLsn(checkpoint.resumeLsn)}: something else has advanced it, and changes are missing. ` +
        "Send the command ReIntialize to copy the tables again.",
    );
  }
}

export async function slotExists(client: Client, name: string): Promise<boolean> {
  const { rowCount } = await client.query("select from pg_replication_slots where slot_name = $1", [name]);
  return (rowCount ?? 0) > 0;
}

/** How long between two looks at a slot that is still held. */
const dropPollMs = 50;

/**
 * Drops the slot if it is there. A walsender of ours that is still going down holds it: it is told to end, and
 * waited for at most `boundMs`. Throws `slot_active` when it still holds the slot then.
 */
export async function dropSlot(client: Client, name: string, boundMs = 10_000): Promise<void> {
  const deadline = performance.now() + boundMs;
  while (await slotExists(client, name)) {
    const { rows } = await client.query<{ pid: number | null }>(
      "select active_pid as pid from pg_replication_slots where slot_name = $1",
      [name],
    );
    const pid = rows[0]?.pid ?? null;
    if (pid === null) {
      await client.query("select pg_drop_replication_slot($1)", [name]).catch((error: unknown) => {
        if (sqlStateOf(error) !== objectInUse) throw error;
      });
    } else if (performance.now() > deadline) {
      throw new MillraceError(
        "slot_active",
        `Replication slot ${name} is held by process ${pid}. End it: SELECT pg_terminate_backend(${pid});`,
      );
    } else {
      await client.query("select pg_terminate_backend($1)", [pid]);
      await Bun.sleep(dropPollMs);
    }
  }
}

const objectInUse = "55006";
