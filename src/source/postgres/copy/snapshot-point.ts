// A consistent point: a snapshot that several sessions can import. For a stream it is the snapshot that creating a slot
// exports, which matches the commit order exactly. A snapshot and an LSN read separately do not match: a commit is
// logged before it is visible.
// https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-CREATE-REPLICATION-SLOT
// https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION

import type { Client } from "pg";
import { copiesLogPrefix } from "../../../change/checkpoint.ts";
import { type Lsn, parseLsn } from "../../../change/lsn.ts";
import { closeClient, destroyClient } from "../../../connection/postgres-client.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import type { SnapshotPoint } from "../../table-source.ts";
import { createSlot, type SlotKind } from "../slot/slot.ts";
import { formatLog, readLog } from "../slot/source-log.ts";

export class ExportedSnapshot implements SnapshotPoint {
  #closed: Promise<void> | null = null;

  private constructor(
    readonly lsn: Lsn,
    readonly timeUs: bigint,
    readonly log: string,
    readonly snapshotName: string,
    private readonly session: Client,
  ) {}

  /** Takes ownership of `replication`, a walsender connection: the snapshot is valid while that stays idle. */
  static async create(
    replication: Client,
    slot: string,
    kind: SlotKind,
    control: Client,
  ): Promise<ExportedSnapshot> {
    try {
      const log = formatLog(await readLog(replication));
      const { consistentPoint, snapshotName } = await createSlot(replication, control, slot, kind);
      const { rows } = await control.query<{ us: string }>(
        "select (extract(epoch from clock_timestamp()) * 1000000)::int8::text as us",
      );
      const timeUs = BigInt(rows[0]?.us ?? 0);
      return new ExportedSnapshot(consistentPoint, timeUs, log, snapshotName, replication);
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
      // The server must not end the transaction for being idle, or for its age.
      await session.query(keepOpenSql);
      await session.query("begin isolation level repeatable read read only");
      const { rows } = await session.query<{ lsn: string; us: string; name: string }>(pointQuery);
      const { lsn, us, name } = rows[0]!;
      const log = copiesLogPrefix + (await nameDatabase(session, address));
      return new ExportedSnapshot(parseLsn(lsn), BigInt(us), log, name, session);
    } catch (error) {
      destroyClient(session);
      throw describePostgresError(error, "source");
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closed ??= closeClient(this.session);
    return this.#closed;
  }
}

const keepOpenSql =
  "select set_config(name, '0', false) from pg_settings where name in ('idle_in_transaction_session_timeout', 'transaction_timeout')";

const pointQuery = `
  select coalesce(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end, '0/1')::text as lsn,
         (extract(epoch from clock_timestamp()) * 1000000)::int8::text as us,
         pg_export_snapshot() as name`;

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
