// Judges whether a stream can continue from a checkpoint by a slot in this state. Pure. Each reason says what to do.
// The codes are permanent: the run ends with them (runtime/run/restart-policy.ts). Only that of a standby is not.

import { type Checkpoint, reachOf } from "../../../change/checkpoint.ts";
import { formatLsn, parseLsn } from "../../../change/lsn.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

/** A physical slot has no plugin and no database. For a slot that does not exist all of its fields are null. */
export interface SlotState {
  readonly exists: boolean;
  readonly plugin: string | null;
  readonly database: string | null;
  readonly isOfDatabase: boolean;
  readonly confirmedFlushLsn: string | null;
  /** Two slots of one name that were made one after the other differ in it. It changes whenever the slot advances. */
  readonly place: string | null;
  readonly catalogXmin: number | null;
  /** `reserved`, `extended`, `unreserved`, `lost`. */
  readonly walStatus: string | null;
  /** Of a lost slot, where it is known: `wal_removed`, `rows_removed`, `wal_level_insufficient`, `idle_timeout`. */
  readonly invalidationReason: string | null;
  readonly maxSlotWalKeepSize: string;
  readonly walLevel: string;
  readonly logEnd: string;
  readonly isInRecovery: boolean;
  /** A copy of the primary's slot, of which nothing can be read before the promotion. */
  readonly isSynced: boolean;
}

export interface KnownRun {
  /** The last stream came from a standby, which has a slot of its own. */
  readonly wasStandby?: boolean;
  /** The connector may be given the command Resume. */
  readonly isResumable?: boolean;
}

/** Of a lost slot, or a log that lacks what the sink has. */
export function remedy(isResumable: boolean): string {
  return isResumable
    ? "send the command Resume, which compares the tables with the source and copies what differs, or ReInitialize to copy everything again."
    : "send the command ReInitialize to copy everything again.";
}

/** The place that the source's log has to have. */
export function describeReach(checkpoint: Checkpoint): string {
  const reach = reachOf(checkpoint);
  return reach > checkpoint.resumeLsn
    ? `${formatLsn(reach)}, up to which the sink may have changes`
    : `the checkpoint ${formatLsn(reach)}`;
}

/**
 * Why nothing can be concluded from the slot: the server is a standby, and the slot its primary's. Null: the slot is this server's.
 */
export function judgeStandby(name: string, slot: SlotState, wasStandby: boolean): MillraceError | null {
  const isOwn = slot.exists ? !slot.isSynced : wasStandby;
  if (!slot.isInRecovery || isOwn) return null;
  return isStandby(
    `nothing can be read from replication slot ${name}: it is the primary's. It is tried again until the standby is promoted, ` +
      "or the primary answers. To read from the standby itself, send Stop, then Resume or ReInitialize" +
      `${slot.isSynced ? `, after SELECT pg_drop_replication_slot('${name}'); at the primary` : ""}.`,
  );
}

/** The standby drops its copy of a slot when the primary has dropped that. */
export function syncedSlot(name: string): MillraceError {
  return isStandby(
    `replication slot ${name} there is a copy of the primary's. Run at the primary: SELECT pg_drop_replication_slot('${name}');`,
  );
}

/** Why streaming cannot continue from `checkpoint`; null: it can. */
export function judgeSlot(
  name: string,
  slot: SlotState,
  checkpoint: Checkpoint,
  { wasStandby = false, isResumable = false }: KnownRun = {},
): MillraceError | null {
  const resume = formatLsn(checkpoint.resumeLsn);
  const way = remedy(isResumable);
  const standby = judgeStandby(name, slot, wasStandby);
  if (standby) return standby;
  if (slot.walLevel !== "logical") return walLevelTooLow(slot.walLevel);
  if (!slot.exists) {
    return new MillraceError(
      "slot_missing",
      `Replication slot ${name} no longer exists: changes since ${resume} may be lost. Find out who dropped it, then ${way}`,
    );
  }
  const mismatch = slotMismatch(name, slot);
  if (mismatch) return mismatch;
  if (slot.walStatus === "lost" || slot.invalidationReason !== null || slot.confirmedFlushLsn === null) {
    return new MillraceError(
      "slot_invalidated",
      `Replication slot ${name} is invalidated: ${invalidation(slot.invalidationReason, slot.maxSlotWalKeepSize)} Then ${way}`,
    );
  }
  if (parseLsn(slot.logEnd) < reachOf(checkpoint)) {
    if (slot.isInRecovery)
      return isStandby(
        `it has replayed the log to ${slot.logEnd}, and not yet to ${describeReach(checkpoint)}. It is tried again until it has.`,
      );
    return new MillraceError(
      "source_behind",
      `The source's log ends at ${slot.logEnd}, before ${describeReach(checkpoint)}: it was restored from a backup, or is ` +
        `another server. Let the address lead to the right server, or ${way}`,
    );
  }
  const confirmed = parseLsn(slot.confirmedFlushLsn);
  if (confirmed <= checkpoint.resumeLsn) return null;
  return new MillraceError(
    "slot_ahead",
    `Replication slot ${name} stands at ${formatLsn(confirmed)}, ahead of the checkpoint ${resume}, and cannot bring the changes in ` +
      "between again: something else has read from it or advanced it, or a backup or a failover has set the checkpoint back (it is in a " +
      `Postgres sink's database, in Kafka where that has transactions, and in millrace's state otherwise). Find out what, then ${way}`,
  );
}

/** The slot stands where it stood long ago: see slot-reached.ts. */
export function setBack(name: string, isResumable: boolean): MillraceError {
  return new MillraceError(
    "source_behind",
    `Replication slot ${name} stands before a place that it had reached: the source was set back to an earlier moment, as from a snapshot of its ` +
      "disks, and has gone on from there. The sink may hold changes that the source does not, and lack others. " +
      `To take over what the source has, ${remedy(isResumable)}`,
  );
}

/** The slot exists but was not created for this connector; null: it was, or there is none. */
export function slotMismatch(name: string, slot: SlotState): MillraceError | null {
  if (!slot.exists || (slot.plugin === "pgoutput" && slot.isOfDatabase)) return null;
  const kind =
    slot.plugin === null ? "a physical slot" : `of plugin ${slot.plugin} in database ${slot.database}`;
  return new MillraceError(
    "slot_mismatch",
    `Replication slot ${name} is ${kind}: it is not this connector's. Slots have one name in the whole server: ` +
      `give the connector another id, or drop the slot if nobody needs it: SELECT pg_drop_replication_slot('${name}');`,
  );
}

/** A standby shows the past, and changes nothing: it is no proof of a loss. */
function isStandby(text: string): MillraceError {
  return new MillraceError("source_is_standby", `A standby answers at the source's address, and ${text}`);
}

export function walLevelTooLow(walLevel: string): MillraceError {
  const sql = "ALTER SYSTEM SET wal_level = 'logical'";
  return new MillraceError(
    "wal_level_not_logical",
    `The source's wal_level is ${walLevel}; it must be logical. Run ${sql}; and restart the server.`,
    { commands: [sql] },
  );
}

/** Why the server gave a slot up, and how to avoid the next time. `maxSlotWalKeepSize`: for people. */
export function invalidation(reason: string | null, maxSlotWalKeepSize: string): string {
  switch (reason) {
    case "idle_timeout":
      return (
        "the connector was idle (stopped, or copying) for longer than idle_replication_slot_timeout. " +
        "Run ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();"
      );
    case "rows_removed":
      return (
        "the standby removed rows of the catalog that it needs. " +
        "Run ALTER SYSTEM SET hot_standby_feedback = on; SELECT pg_reload_conf(); on the standby."
      );
    case "wal_level_insufficient":
      return "wal_level was lowered at the primary. Run ALTER SYSTEM SET wal_level = 'logical'; there, and restart it.";
    default:
      return (
        `the server removed the log it needs, because the connector was behind, or a transaction had been open, for more than max_slot_wal_keep_size (${maxSlotWalKeepSize}). ` +
        "Raise it, or lift it: ALTER SYSTEM SET max_slot_wal_keep_size = -1; SELECT pg_reload_conf();"
      );
  }
}
