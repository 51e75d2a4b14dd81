// Removes what a connector has at its sink that is of no use to anybody: the side tables of copies that did not come to their end.

import { withPostgres } from "../../../connection/postgres-client.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import { dropAllBesideTables } from "../copy/beside-tables.ts";
import { DividedCopies } from "../copy/divided-copies.ts";

/** What it has delivered stays, and where it stood. Throws MillraceErrors of the connection, or `signal.reason`. */
export async function dropSideTables(
  { connection }: PostgresSinkConfig,
  connectorId: string,
  signal: AbortSignal,
): Promise<void> {
  await withPostgres(connection, "control", signal, "sink", async (client) => {
    const { rows } = await client.query<{ known: boolean; hasBeside: boolean }>(
      "select to_regclass('millrace.divided_copy') is not null as known, " +
        "to_regclass('millrace.beside_range') is not null as \"hasBeside\"",
    );
    if (!rows[0]?.known) return;
    const copies = new DividedCopies(connectorId);
    await copies.load(client);
    await copies.drop(client);
    if (rows[0].hasBeside) await dropAllBesideTables(client, connectorId);
  });
}
