// Drops what a connector created at its source.

import { withPostgres } from "../../connection/postgres-client.ts";
import type { PostgresSourceConfig } from "../../connector/config/source-config.ts";
import type { DroppedBy } from "../source.ts";
import { dropOwnPublications } from "./publication/publication.ts";
import { dropSlot } from "./slot/slot.ts";

/** Drops the slot and the connector's own publications, but not a publication that the user named. */
export async function dropPostgresObjects(
  config: PostgresSourceConfig,
  slot: string,
  signal: AbortSignal,
  by?: DroppedBy,
): Promise<void> {
  await withPostgres(config.connection, "control", signal, "source", async (client) => {
    await dropSlot(client, slot, signal, by);
    // It may have taken long to free the slot.
    await by?.confirm?.();
    await dropOwnPublications(
      client,
      slot,
      config.replication_type.logical_replication?.publication_name ?? null,
    );
  });
}
