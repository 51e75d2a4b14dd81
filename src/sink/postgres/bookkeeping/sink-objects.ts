// Drops what a deleted connector leaves at its sink and nobody can use: the tables of its unfinished copies.

import { withPostgres } from "../../../connection/postgres-client.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import { CopyRecords } from "./copy-records.ts";
import { ensureBookkeeping } from "./ensure-bookkeeping.ts";
import { dropFormerCopies } from "./former-copies.ts";

/** Delivered rows and the checkpoint stay. Throws MillraceErrors of the connection, or `signal.reason`. */
export async function dropSideTables(
  { connection }: PostgresSinkConfig,
  connectorId: string,
  signal: AbortSignal,
): Promise<void> {
  await withPostgres(connection, "control", signal, "sink", async (client) => {
    const { rows } = await client.query<{ known: boolean }>(
      "select to_regclass('millrace.divided_copy') is not null as known",
    );
    if (!rows[0]?.known) return;
    await ensureBookkeeping(client);
    const records = new CopyRecords(connectorId);
    await records.load(client);
    await records.dropAll(client);
    await records.dropUnrecorded(client);
    await dropFormerCopies(client, connectorId);
  });
}
