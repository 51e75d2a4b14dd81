// Keeps the runs of one connector apart at the sink: a session of an earlier one may still be about to commit. One that its
// service left behind, because it died while the network had forgotten the connection, is ended; anybody else's is waited for.
// https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import { describeSession, type HoldingSession, sessionColumns } from "../../../connection/holding-session.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

/** First key of the advisory locks: "mill" in ASCII, so that they meet nobody else's. */
export const lockSpace = 0x6d696c6c;

export interface ConnectorAtSink {
  readonly connectorId: string;
  /** Names the one service that may run the connector. Without it nobody is known well enough to be ended. */
  readonly owner?: string | undefined;
  readonly signal: AbortSignal;
}

/** How long it is waited; a session of an earlier run has `graceMs` to end by itself before it is ended. */
export interface LockPatience {
  readonly boundMs: number;
  readonly graceMs: number;
}

/** A backend whose client has just gone needs a moment to notice. */
const defaultPatience: LockPatience = { boundMs: 15_000, graceMs: 500 };
const pollMs = 50;

/** What a connector's sessions are called: by this, and no less, the next run of the same service knows them for its own. */
export function sinkSessionName(purpose: "apply" | "copy", { connectorId, owner }: ConnectorAtSink): string {
  return `millrace ${purpose} ${connectorId}${owner === undefined ? "" : ` ${owner}`}`;
}

/**
 * For the session that applies: returns when no session of another run is left. Throws `sink_connection_lost`, which names
 * who holds the lock.
 */
export async function lockConnector(
  client: Client,
  connector: ConnectorAtSink,
  patience = defaultPatience,
): Promise<void> {
  await lock(client, connector, "pg_try_advisory_lock", patience);
}

/**
 * For a session beside the one that applies, to the end of its transaction: one that rests between two copies keeps nobody
 * waiting when the network has forgotten it.
 */
export async function lockForCopy(client: Client, connector: ConnectorAtSink): Promise<void> {
  await lock(client, connector, "pg_try_advisory_xact_lock_shared", defaultPatience);
}

/** Lets sessions beside this one take their shared lock: the exclusive one has shown that nobody else is left. */
export async function shareConnectorLock(client: Client, { connectorId }: ConnectorAtSink): Promise<void> {
  await client.query(
    "select pg_advisory_lock_shared($1, hashtext($2)), pg_advisory_unlock($1, hashtext($2))",
    [lockSpace, connectorId],
  );
}

async function lock(
  client: Client,
  connector: ConnectorAtSink,
  tryLock: "pg_try_advisory_lock" | "pg_try_advisory_xact_lock_shared",
  { boundMs, graceMs }: LockPatience,
): Promise<void> {
  const { connectorId, signal } = connector;
  const begunAt = performance.now();
  while (true) {
    const { rows } = await client.query<{ locked: boolean }>(
      `select ${tryLock}($1, hashtext($2)) as locked`,
      [lockSpace, connectorId],
    );
    if (rows[0]?.locked) return;
    const waitedMs = performance.now() - begunAt;
    if (waitedMs > boundMs) throw heldBy(connectorId, await readHolders(client, connectorId));
    if (waitedMs > graceMs && tryLock === "pg_try_advisory_lock") await endEarlierRun(client, connector);
    await sleep(pollMs, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

/** `objid` is the hash as an unsigned number. Another connector's id may have the same. */
const holdersQuery = `
select l.pid, ${sessionColumns}
from pg_locks l left join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.pid <> pg_backend_pid()
  and l.database = (select oid from pg_database where datname = current_database())
  and l.classid = $1::int8::oid and l.objid = (hashtext($2)::int8 & 4294967295)::oid and l.objsubid = 2`;

async function readHolders(client: Client, connectorId: string): Promise<readonly HoldingSession[]> {
  const { rows } = await client.query<HoldingSession>(holdersQuery, [lockSpace, connectorId]);
  return rows;
}

/** Whatever such a session was about to commit, it has or has not when the lock is free: the bookkeeping tells which. */
async function endEarlierRun(client: Client, connector: ConnectorAtSink): Promise<void> {
  if (connector.owner === undefined) return;
  const ours = [sinkSessionName("apply", connector), sinkSessionName("copy", connector)];
  const left = (await readHolders(client, connector.connectorId)).filter(
    ({ isSameUser, applicationName }) => isSameUser && ours.includes(applicationName ?? ""),
  );
  if (left.length === 0) return;
  await client.query("select pg_terminate_backend(pid) from unnest($1::int4[]) as p (pid)", [
    left.map(({ pid }) => pid),
  ]);
}

function heldBy(connectorId: string, holders: readonly HoldingSession[]): MillraceError {
  const who = holders.map(describeSession);
  const end = holders.map(({ pid }) => `SELECT pg_terminate_backend(${pid});`).join(" ");
  return new MillraceError(
    "sink_connection_lost",
    `Another run of connector ${connectorId} is still connected to the sink's database: ${who.join(", ")}. ` +
      `Stop the service that it belongs to. If nothing is there any more: ${end}`,
  );
}
