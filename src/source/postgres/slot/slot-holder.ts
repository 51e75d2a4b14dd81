// Who holds a slot. A walsender that a former run of this connector left behind, because its client died without a word,
// is ended; anybody else's is named and waited for.

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import { describeSession, type HoldingSession, sessionColumns } from "../../../connection/holding-session.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

const replicationName = "millrace replication";

/**
 * What a connector's walsenders are called. `owner` names the one service that may run it: whatever else bears the name
 * is left of an earlier run of the same service.
 */
export function walsenderName(owner: string | undefined): string {
  return owner === undefined ? replicationName : `${replicationName} ${owner}`;
}

/** A walsender of some millrace that logs in as we do: enough to clear a slot away that is ours to drop. */
export function isOfThisService(holder: HoldingSession): boolean {
  return holder.isSameUser && (holder.applicationName ?? "").startsWith(replicationName);
}

/** A walsender of an earlier run of the connector. Without an owner nobody is known well enough. */
export function isOfEarlierRun(owner: string | undefined): (holder: HoldingSession) => boolean {
  return (holder) =>
    owner !== undefined && holder.isSameUser && holder.applicationName === walsenderName(owner);
}

const holderQuery = `
select s.active_pid as pid, ${sessionColumns}
from pg_replication_slots s left join pg_stat_activity a on a.pid = s.active_pid
where s.slot_name = $1 and s.active_pid is not null`;

const pollMs = 50;
/** A walsender whose client has gone needs a moment to notice. */
const foreignBoundMs = 2_000;

/**
 * Returns when nobody holds the slot. Ends the holder when `isOurs` says so, and waits for it at most `boundMs`.
 * Throws `slot_active`, which names the holder, or `signal.reason`.
 */
export async function freeSlot(
  client: Client,
  slot: string,
  isOurs: (holder: HoldingSession) => boolean,
  signal: AbortSignal,
  boundMs = 10_000,
): Promise<void> {
  const begunAt = performance.now();
  for (let told: number | null = null; ; ) {
    const { rows } = await client.query<HoldingSession>(holderQuery, [slot]);
    const holder = rows[0];
    if (!holder) return;
    const ours = isOurs(holder);
    const waitedMs = performance.now() - begunAt;
    if (waitedMs > (ours ? boundMs : Math.min(boundMs, foreignBoundMs))) throw heldBy(slot, holder);
    if (ours && told !== holder.pid) {
      await client.query("select pg_terminate_backend($1)", [holder.pid]);
      told = holder.pid;
    }
    await sleep(pollMs, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

function heldBy(slot: string, holder: HoldingSession): MillraceError {
  return new MillraceError(
    "slot_active",
    `Replication slot ${slot} is held by ${describeSession(holder)}: stop what reads from it. ` +
      `If nothing is there any more: SELECT pg_terminate_backend(${holder.pid});`,
  );
}
