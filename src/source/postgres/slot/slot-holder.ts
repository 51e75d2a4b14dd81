// Frees a slot of the walsender that is reading from it. A walsender of an earlier run of this connector, whose client
// died silently or whose lease has ended, is terminated. One of a higher term ends this run. Any other one is waited for, and
// named in the error.

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import {
  type BlockingSession,
  describeSession,
  sessionColumns,
} from "../../../connection/blocking-session.ts";
import {
  type RunOwner,
  type SessionStanding,
  sessionName,
  sessionStanding,
} from "../../../connection/run-session.ts";
import { leaseLost } from "../../../errors/lease-lost.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

const replicationName = "millrace replication";

/**
 * The application name of a connector's walsenders. `owner` names the one installation that may run the connector: every
 * other walsender of this name is left over from an earlier run of it, or is one of a higher term.
 */
export function walsenderName(run: RunOwner): string {
  return sessionName(replicationName, run);
}

/** What may be done with the walsender that holds a slot. */
export type HolderJudgement = (holder: BlockingSession) => SessionStanding;

/** Ends those of earlier runs of this connector. Without an owner none can be recognised. */
export function earlierRuns(run: RunOwner): HolderJudgement {
  return (holder) => sessionStanding(holder, replicationName, run);
}

/** Ends any millrace's walsender of the same role but one of a higher term: enough to drop a slot that is ours. */
export function anyOfThisService(run: RunOwner): HolderJudgement {
  return (holder) => {
    const standing = sessionStanding(holder, replicationName, run);
    const isOurs = holder.isSameUser && (holder.applicationName ?? "").startsWith(replicationName);
    return standing === "foreign" && isOurs ? "same" : standing;
  };
}

const holderQuery = `
select s.active_pid as pid, ${sessionColumns}
from pg_replication_slots s left join pg_stat_activity a on a.pid = s.active_pid
where s.slot_name = $1 and s.active_pid is not null`;

const pollMs = 50;
/** A walsender needs a moment to notice that its client has gone. */
const foreignBoundMs = 2_000;

/**
 * Returns when nothing reads from the slot. Terminates the walsender where `judge` finds it to be of an earlier run, and waits for it
 * at most `boundMs`. Throws `slot_active`, which names the walsender, `lease_lost`, or `signal.reason`.
 */
export async function freeSlot(
  client: Client,
  slot: string,
  judge: HolderJudgement,
  signal: AbortSignal,
  boundMs = 10_000,
): Promise<void> {
  const begunAt = performance.now();
  for (let terminated: number | null = null; ; ) {
    const { rows } = await client.query<BlockingSession>(holderQuery, [slot]);
    const holder = rows[0];
    if (!holder) return;
    const standing = judge(holder);
    if (standing === "newer") throw leaseLost();
    const ours = standing !== "foreign";
    const waitedMs = performance.now() - begunAt;
    if (waitedMs > (ours ? boundMs : Math.min(boundMs, foreignBoundMs))) throw heldBy(slot, holder);
    if (ours && terminated !== holder.pid) {
      await client.query("select pg_terminate_backend($1)", [holder.pid]);
      terminated = holder.pid;
    }
    await sleep(pollMs, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

function heldBy(slot: string, holder: BlockingSession): MillraceError {
  return new MillraceError(
    "slot_active",
    `Replication slot ${slot} is held by ${describeSession(holder)}: stop what reads from it. ` +
      `If nothing is there any more: SELECT pg_terminate_backend(${holder.pid});`,
  );
}
