// A consistent point: a snapshot that several sessions can import. For a stream it is the snapshot that creating a slot
// exports, which matches the commit order exactly. A snapshot and an LSN read separately do not match: a commit is
// logged before it is visible. An ordinary session takes the snapshot over: a temporary slot keeps the log for as long as
// it stands, and the server ends its walsender once that is more than `max_slot_wal_keep_size`.
// https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-CREATE-REPLICATION-SLOT
// https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION

import { type Client, escapeLiteral } from "pg";
import { copiesLogPrefix } from "../../../change/checkpoint.ts";
import { type Lsn, parseLsn } from "../../../change/lsn.ts";
import { closeClient, destroyClient } from "../../../connection/postgres-client.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import type { SnapshotPoint } from "../../table-source.ts";
import type { KeptSession } from "../control-sessions.ts";
import { createSlot, type SlotKind } from "../slot/slot.ts";
import { formatLog, readLog } from "../slot/source-log.ts";

export class ExportedSnapshot implements SnapshotPoint {
  #closed: Promise<void> | null = null;

  private constructor(
    readonly lsn: Lsn,
    readonly timeUs: bigint,
    readonly log: string,
    readonly snapshotName: string,
    private readonly close: () => Promise<void>,
  ) {}

  /** Closes `replication`, a walsender connection, and with it a temporary slot. The snapshot is valid until `session` is given back. */
  static async ofSlot(
    replication: Client,
    slot: string,
    kind: SlotKind,
    { client, giveBack }: KeptSession,
  ): Promise<ExportedSnapshot> {
    try {
      const log = formatLog(await readLog(replication));
      const { consistentPoint, snapshotName } = await createSlot(replication, client, slot, kind);
      const { us, name } = await beginAndExport(client, snapshotName);
      await closeClient(replication);
      return new ExportedSnapshot(consistentPoint, BigInt(us), log, name, giveBack);
    } catch (error) {
      destroyClient(replication);
      throw error;
    }
  }

  /**
   * A point for copies without a stream, whose LSN is only approximate. Takes ownership of `session`: the snapshot is
   * valid while its transaction is open. `address`: of the source. Throws connection errors.
   */
  static async ofTransaction(session: Client, address: string): Promise<ExportedSnapshot> {
    try {
      const { lsn, us, name } = await beginAndExport(session, null);
      const log = copiesLogPrefix + (await nameDatabase(session, address));
      return new ExportedSnapshot(parseLsn(lsn), BigInt(us), log, name, () => closeClient(session));
    } catch (error) {
      destroyClient(session);
      throw describePostgresError(error, "source");
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closed ??= this.close();
    return this.#closed;
  }
}

interface Exported {
  readonly lsn: string;
  readonly us: string;
  readonly name: string;
}

/** In a transaction that the server does not end for being idle, or for its age. `imported`: the snapshot that it has; null: its own. */
async function beginAndExport(session: Client, imported: string | null): Promise<Exported> {
  await session.query(
    "begin isolation level repeatable read read only" +
      (imported === null ? "" : `; set transaction snapshot ${escapeLiteral(imported)}`),
  );
  const { rows } = await session.query<Exported>(exportQuery);
  return rows[0]!;
}

const exportQuery = `
  select coalesce(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end, '0/1')::text as lsn,
         (extract(epoch from clock_timestamp()) * 1000000)::int8::text as us,
         pg_export_snapshot() as name,
         (select count(set_config(s.name, '0', true)) from pg_settings s
          where s.name in ('idle_in_transaction_session_timeout', 'transaction_timeout')) as lifted`;

/**
 * Distinguishes the database from one that was restored or recreated at its address. Empty where the role may not
 * find out.
 */
async function nameDatabase(client: Client, address: string): Promise<string> {
  const { rows: allowed } = await client.query<{ yes: boolean }>(
    "select has_function_privilege('pg_catalog.pg_control_system()', 'execute') as yes",
  );
  if (!allowed[0]?.yes) return "";
  const { rows } = await client.query<{ name: string }>(
    "select system_identifier::text || '/' || d.oid::text as name from pg_control_system(), pg_database d where datname = current_database()",
  );
  return rows[0] ? `${rows[0].name} at ${address}` : "";
}
