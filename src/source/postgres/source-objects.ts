// Removes what a connector made at its source.

import { connectPostgres, destroyClient } from "../../connection/postgres-client.ts";
import { describePostgresError } from "../../connection/postgres-failure.ts";
import type { PostgresSourceConfig } from "../../connector/source-config.ts";
import { dropOwnPublications } from "./publication.ts";
import { dropSlot } from "./slot.ts";

/** Drops the slot, and the publications unless the connector names one that is somebody else's. */
export async function dropPostgresObjects(
  config: PostgresSourceConfig,
  slot: string,
  signal: AbortSignal,
): Promise<void> {
  const client = await connectPostgres(config.connection, "control", signal, "source");
  const abort = () => destroyClient(client);
  signal.addEventListener("abort", abort, { once: true });
  try {
    await dropSlot(client, slot);
    const named = config.replication_type.logical_replication?.publication_name ?? null;
    if (named === null) await dropOwnPublications(client, slot);
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw describePostgresError(error, "source");
  } finally {
    signal.removeEventListener("abort", abort);
    await client.end().catch(() => destroyClient(client));
  }
}
