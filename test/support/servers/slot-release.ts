// A walsender outlives its client by a moment. Who drops or moves the slot of a stopped run waits for that.

import { waitFor } from "../wait-for.ts";
import type { PostgresServer } from "./postgres-server.ts";

/** Resolves when nobody reads from the slot any more. */
export async function slotRelease(server: PostgresServer, slot: string): Promise<void> {
  await waitFor(`the end of what reads from ${slot}`, async () => {
    const [row] = await server.query<{ active: boolean }>(
      `select active from pg_replication_slots where slot_name = '${slot}'`,
    );
    return row?.active === false;
  });
}
