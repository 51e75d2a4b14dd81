// Allows one run of a connector at a time at the sink, by an advisory lock: a session of an earlier run may still be about to commit. A
// session that an earlier run left behind is terminated. Anybody else's is waited for, and one of a higher term ends this run. run-term.ts
// keeps out a run of a lower term that opens another session later.
// https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import {
  type BlockingSession,
  describeSession,
  sessionColumns,
} from "../../../connection/blocking-session.ts";
import { type SessionStanding, sessionName, sessionStanding } from "../../../connection/run-session.ts";
import type { Term } from "../../../connector/term.ts";
import { leaseLost } from "../../../errors/lease-lost.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { requireTerm } from "./run-term.ts";

/** The first key of the advisory locks: "mill" in ASCII, which nobody else is likely to use. */
export const lockSpace = 0x6d696c6c;

export interface ConnectorAtSink {
  readonly connectorId: string;
  /** Names the one service that may run the connector. Without it no session is terminated. */
  readonly owner?: string | undefined;
  /** See `SinkContext`. */
  readonly term?: Term | undefined;
  readonly signal: AbortSignal;
}

/** How long to wait. A session of an earlier attempt is terminated after `graceMs`; one of a lower term at once, as its lease has ended. */
export interface LockPatience {
  readonly boundMs: number;
  readonly graceMs: number;
}

/** A backend needs a moment to notice that its client is gone. */
const defaultPatience: LockPatience = { boundMs: 15_000, graceMs: 500 };
const pollMs = 50;

/** The application_name of a connector's sessions. Only by the full name does the next run of the same service recognize its own. */
export function sinkSessionName(purpose: "apply" | "copy", connector: ConnectorAtSink): string {
  return sessionName(baseName(purpose, connector), connector);
}

function baseName(purpose: "apply" | "copy", { connectorId }: ConnectorAtSink): string {
  return `millrace ${purpose} ${connectorId}`;
}

function standingOf(holder: BlockingSession, connector: ConnectorAtSink): SessionStanding {
  const asApply = sessionStanding(holder, baseName("apply", connector), connector);
  return asApply === "foreign" ? sessionStanding(holder, baseName("copy", connector), connector) : asApply;
}

/**
 * For the session that applies. Returns when no other run has a session. Throws `sink_connection_lost`, which names the lock's holder, or
 * `lease_lost`.
 */
export async function lockConnector(
  client: Client,
  connector: ConnectorAtSink,
  patience = defaultPatience,
): Promise<void> {
  await lock(client, connector, "pg_try_advisory_lock", patience);
}

/**
 * For the other sessions, until the end of the transaction: an idle session between two copies must not block the next run after its network
 * connection was lost. A process that was frozen between two copies gets the lock too, as the next run shares it: its term tells. Throws as
 * `lockConnector`.
 */
export async function lockForCopy(client: Client, connector: ConnectorAtSink): Promise<void> {
  await lock(client, connector, "pg_try_advisory_xact_lock_shared", defaultPatience);
  await requireTerm(client, connector);
}

/** Replaces the exclusive lock, which has shown that no other run is left, by a shared one, so that this run's other sessions can share it. */
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
    const holders = await readHolders(client, connectorId);
    if (holders.some((holder) => standingOf(holder, connector) === "newer")) throw leaseLost();
    if (waitedMs > boundMs) throw lockTimeout(connectorId, holders);
    if (tryLock === "pg_try_advisory_lock")
      await endEarlierRuns(client, connector, holders, waitedMs > graceMs);
    await sleep(pollMs, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

/** `objid` is the hash as an unsigned number. Another connector's id may have the same hash. */
const holdersQuery = `
select l.pid, ${sessionColumns}
from pg_locks l left join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.pid <> pg_backend_pid()
  and l.database = (select oid from pg_database where datname = current_database())
  and l.classid = $1::int8::oid and l.objid = (hashtext($2)::int8 & 4294967295)::oid and l.objsubid = 2`;

async function readHolders(client: Client, connectorId: string): Promise<readonly BlockingSession[]> {
  const { rows } = await client.query<BlockingSession>(holdersQuery, [lockSpace, connectorId]);
  return rows;
}

/** A session that is terminated during COMMIT may have committed or not. The checkpoint is read once the lock is free, and tells which. */
async function endEarlierRuns(
  client: Client,
  connector: ConnectorAtSink,
  holders: readonly BlockingSession[],
  isGraceOver: boolean,
): Promise<void> {
  const left = holders.filter((holder) => {
    const standing = standingOf(holder, connector);
    return standing === "older" || (standing === "same" && isGraceOver);
  });
  if (left.length === 0) return;
  await client.query("select pg_terminate_backend(pid) from unnest($1::int4[]) as p (pid)", [
    left.map(({ pid }) => pid),
  ]);
}

function lockTimeout(connectorId: string, holders: readonly BlockingSession[]): MillraceError {
  const who = holders.map(describeSession);
  const end = holders.map(({ pid }) => `SELECT pg_terminate_backend(${pid});`).join(" ");
  return new MillraceError(
    "sink_connection_lost",
    `Another run of connector ${connectorId} is still connected to the sink's database: ${who.join(", ")}. ` +
      `Stop the service that it belongs to. If nothing is there any more: ${end}`,
  );
}
