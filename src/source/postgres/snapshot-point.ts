// A consistent point: the snapshot that the creation of a slot exports. It is exact about commit order, which a
// snapshot taken beside an LSN is not: a commit is in the log before it is visible.
// https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-CREATE-REPLICATION-SLOT

import type { Client } from "pg";
import type { Lsn } from "../../change/lsn.ts";
import { closeClient, destroyClient } from "../../connection/postgres-client.ts";
import { SessionPool } from "../../connection/session-pool.ts";
import type { SnapshotPoint } from "../source.ts";
import { createSlot, type SlotKind } from "./slot.ts";
import { formatLog, readLog } from "./source-log.ts";

export class ExportedSnapshot implements SnapshotPoint {
  private constructor(
    readonly lsn: Lsn,
    readonly timeUs: bigint,
    readonly log: string,
    readonly snapshotName: string,
    private readonly holder: Client,
    /** In which tables are read as of the snapshot. */
    readonly sessions: SessionPool,
  ) {}

  /** Takes over `replication`, a walsender connection: the snapshot is valid while that stays idle. */
  static async create(
    replication: Client,
    slot: string,
    kind: SlotKind,
    control: Client,
    openSession: () => Promise<Client>,
  ): Promise<ExportedSnapshot> {
    try {
      const log = formatLog(await readLog(replication));
      const { consistentPoint, snapshotName } = await createSlot(replication, control, slot, kind);
      const { rows } = await control.query<{ us: string }>(
        "select (extract(epoch from clock_timestamp()) * 1000000)::int8::text as us",
      );
      const timeUs = BigInt(rows[0]?.us ?? 0);
      const sessions = new SessionPool(openSession);
      return new ExportedSnapshot(consistentPoint, timeUs, log, snapshotName, replication, sessions);
    } catch (error) {
      destroyClient(replication);
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sessions[Symbol.asyncDispose]();
    await closeClient(this.holder);
  }
}
