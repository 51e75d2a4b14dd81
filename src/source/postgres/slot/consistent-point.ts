// Creates a slot, permanent or temporary, and returns the snapshot that it exports. A temporary one is gone by then. A
// creation that fails or is aborted leaves nothing behind: a walsender that waits for a transaction does not notice that
// its client has gone.

import type { Client } from "pg";
import type { Permits } from "../../../concurrency/semaphore.ts";
import {
  connectPostgres,
  destroyClient,
  liftTransactionTimeout,
  processIdOf,
  withPostgres,
} from "../../../connection/postgres-client.ts";
import { describePostgresError, sqlStateOf } from "../../../connection/postgres-failure.ts";
import type { RunOwner } from "../../../connection/run-session.ts";
import { watchSession } from "../../../connection/session-watch.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import type { PostgresConnection } from "../../../connector/config/connection.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { describeReplicationDenial } from "../checks/privileges.ts";
import type { KeptSession } from "../control-sessions.ts";
import { ExportedSnapshot } from "../copy/snapshot-point.ts";
import { isStandby, type SlotKind } from "./slot.ts";
import { type Blockage, watchSlotCreation } from "./slot-creation-watch.ts";
import { walsenderName } from "./slot-holder.ts";
import { walLevelTooLow } from "./slot-state.ts";

export interface ConsistentPointRequest {
  readonly connection: PostgresConnection;
  /** A session in the same database, which takes the snapshot over; nothing else uses it. */
  readonly session: KeptSession;
  readonly slot: string;
  readonly kind: SlotKind;
  readonly run: RunOwner;
  /** For the sessions that check the walsender. */
  readonly permits: Permits | undefined;
  /** Also ends what the point is used for. */
  readonly signal: AbortSignal;
  /** Ends waiting for the point. It fires with `signal`, or earlier. */
  readonly stop: AbortSignal;
  readonly warn: (reason: string | null, commands?: readonly string[]) => void;
}

/** How long a temporary slot may take: a blocking copy or a comparison makes the stream wait for it. A new connector has no stream yet, and may wait. */
export const temporarySlotMs = 20_000;
/** A standby waits for its primary to log something three times, every 15 s. */
const standbySlotMs = 60_000;
const cleanUpMs = 3_000;

/**
 * Throws `slot_creation_blocked` when a temporary slot takes too long, `slots_exhausted`, `walsenders_exhausted`,
 * `wal_level_not_logical`, `source_permission_denied`, a connection error, or `stop.reason`.
 */
export async function takeConsistentPoint(request: ConsistentPointRequest): Promise<ExportedSnapshot> {
  const { connection, session, slot, kind, permits, signal, stop } = request;
  const maxMs = (await isStandby(session.client)) ? standbySlotMs : temporarySlotMs;
  const replication = await openReplication(connection, request.run, stop);
  const pid = processIdOf(replication);
  const watch = watchSlotCreation(session.client, pid, request.warn);
  const giveUp = () => destroyClient(replication);
  stop.addEventListener("abort", giveUp, { once: true });
  if (stop.aborted) giveUp();
  const bound = kind === "temporary" ? setTimeout(giveUp, maxMs) : undefined;
  const begunAt = performance.now();
  const isClientBusy = () => watch.waitsForLog;
  using _watch = watchSession({
    connection,
    side: "source",
    client: replication,
    isClientBusy,
    permits,
    signal,
  });
  try {
    return await ExportedSnapshot.ofSlot(replication, slot, kind, session);
  } catch (error) {
    // Without an answer, the server may go on waiting and create the slot later.
    if (sqlStateOf(error) === null) await endCreation(connection, slot, pid);
    if (stop.aborted) throw stop.reason;
    const isGivenUp = kind === "temporary" && performance.now() - begunAt >= maxMs;
    throw isGivenUp ? blocked(watch.seen, error) : describeCreationError(error);
  } finally {
    clearTimeout(bound);
    stop.removeEventListener("abort", giveUp);
    await watch.stop();
  }
}

/** Opens a walsender connection under the run's name. Throws `source_permission_denied` with the SQL to run. */
export async function openReplication(
  connection: PostgresConnection,
  run: RunOwner,
  signal: AbortSignal,
): Promise<Client> {
  const name = walsenderName(run);
  const client = await connectPostgres(connection, "replication", signal, "source", name).catch(
    (error: unknown) => {
      throw describeReplicationDenial(error, connection.user);
    },
  );
  try {
    await liftTransactionTimeout(client);
    return client;
  } catch (error) {
    destroyClient(client);
    if (signal.aborted) throw signal.reason;
    throw describePostgresError(error, "source");
  }
}

/**
 * Ends the walsender that was creating the slot, from another connection. If that fails, it is left to the next run.
 */
async function endCreation(connection: PostgresConnection, slot: string, pid: number): Promise<void> {
  const sql =
    "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = $1 and active_pid = $2";
  const signal = AbortSignal.timeout(cleanUpMs);
  await withPostgres(connection, "control", signal, "source", (client) =>
    client.query(sql, [slot, pid]),
  ).catch(() => {});
}

function blocked(seen: Blockage | null, cause: unknown): MillraceError {
  const find =
    "SELECT pid, xact_start, state FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start";
  const unseen = `a transaction that has been writing at the source for long. Find it: ${find};`;
  return new MillraceError(
    "slot_creation_blocked",
    `A consistent point could not be had in time. Making a replication slot waits for ${seen?.text ?? unseen}`,
    { cause, commands: seen?.commands ?? [find] },
  );
}

function describeCreationError(error: unknown): MillraceError {
  switch (sqlStateOf(error)) {
    case sqlState.objectNotInPrerequisiteState:
      return walLevelTooLow("too low");
    case sqlState.configurationLimitExceeded:
      return new MillraceError(
        "slots_exhausted",
        "All replication slots of the source are taken. Drop one that nobody needs (SELECT slot_name FROM pg_replication_slots " +
          "WHERE NOT active;), or raise max_replication_slots: ALTER SYSTEM SET max_replication_slots = …; and restart the server.",
        { cause: error },
      );
    default:
      return describePostgresError(error, "source");
  }
}
