// Waits until the catalog shows what a streamed transaction did to it. The server sends a transaction once its commit
// record is on disk, and makes it visible to others a little later: with synchronous replication, only when a standby
// has it.
// https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-PG-SNAPSHOT

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";

const patienceMs = 5_000;
const firstPauseMs = 1;
const longestPauseMs = 100;

/** The stream has the lower 32 bits of the xid. The full xid is the one nearest to the next xid to be assigned. */
const visibilityQuery = `
select coalesce(bool_and(pg_visible_in_snapshot(whole.xid::text::xid8, now.snapshot)), true) as "isVisible"
from (select pg_current_snapshot() as snapshot) now
cross join unnest($1::int8[]) as sent (xid)
cross join lateral (
  select sent.xid + (pg_snapshot_xmax(now.snapshot)::text::int8 - sent.xid + 2147483648) / 4294967296 * 4294967296 as xid
) whole`;

/** Whether all transactions are visible; it waits for some seconds at most. `xids` as in the stream. */
export async function awaitVisible(
  client: Client,
  xids: readonly number[],
  signal: AbortSignal,
): Promise<boolean> {
  const endsAt = performance.now() + patienceMs;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
    const { rows } = await client.query<{ isVisible: boolean }>(visibilityQuery, [xids]);
    if (rows[0]!.isVisible) return true;
    if (performance.now() > endsAt) return false;
    await sleep(pauseMs, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}
