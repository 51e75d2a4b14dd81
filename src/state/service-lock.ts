// One service on one state database at a time: a session-level advisory lock on a connection of its own.
// https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS

import type { Client, ClientConfig } from "pg";
import { MillraceError } from "../errors/millrace-error.ts";
import { connectToState, leaveState } from "./state-connection.ts";

/** "mill" and "race" as two int4: the lock's name within the database. */
const lockName = [0x6d696c6c, 0x72616365] as const;

export interface LockBounds {
  /** How long a start waits for a service that is just going down. */
  readonly acquireMs: number;
  /** How often it is looked whether the session still stands. */
  readonly watchMs: number;
  /** How long a dead session of ours, that the server has not given up yet, may stand in the way of the next one. */
  readonly reacquireMs: number;
}

const defaultBounds: LockBounds = { acquireMs: 5_000, watchMs: 2_000, reacquireMs: 60_000 };
const retryMs = 100;
/** A question that is not answered for so long is asked of another session. */
const answerMs = 5_000;

export interface ServiceLock extends AsyncDisposable {
  /** Aborted when another service holds the lock in our place. */
  readonly lost: AbortSignal;
}

/** Takes the lock. Throws `invalid_setting`, naming the holder's session, when another service keeps it. */
export async function holdServiceLock(config: ClientConfig, bounds = defaultBounds): Promise<ServiceLock> {
  const client = await open(config);
  try {
    if (!(await acquireWithin(client, bounds.acquireMs))) throw await inUse(client);
    return watch(config, client, bounds);
  } catch (error) {
    await leaveState(client);
    throw error;
  }
}

function open(config: ClientConfig): Promise<Client> {
  return connectToState({
    ...config,
    query_timeout: answerMs,
    application_name: "millrace service lock",
  });
}

/** Gives up at once when `stop` fires. */
async function acquireWithin(client: Client, boundMs: number, stop?: AbortSignal): Promise<boolean> {
  for (const deadline = Date.now() + boundMs; ; ) {
    const { rows } = await client.query<{ locked: boolean }>(
      "select pg_try_advisory_lock($1, $2) as locked",
      [...lockName],
    );
    if (rows[0]?.locked) return true;
    if (Date.now() >= deadline || stop?.aborted) return false;
    await Bun.sleep(retryMs);
  }
}

async function inUse(client: Client): Promise<MillraceError> {
  const { rows } = await client.query<{ pid: number; address: string }>(
    `select a.pid, coalesce(host(a.client_addr), 'a local socket') as address
     from pg_locks l join pg_stat_activity a on a.pid = l.pid
     where l.locktype = 'advisory' and l.classid = $1::int4::oid and l.objid = $2::int4::oid and l.granted`,
    [...lockName],
  );
  const [holder] = rows;
  const who = holder ? ` (its session there is pid ${holder.pid}, from ${holder.address})` : "";
  return new MillraceError(
    "invalid_setting",
    `Another millrace works on the state database of DATABASE_URL${who}. Stop it, or give this one another database.`,
  );
}

/** The session may die with its server or network. The next one takes the lock again, unless another service was faster. */
function watch(config: ClientConfig, first: Client, bounds: LockBounds): ServiceLock {
  const lost = new AbortController();
  let holder: Client | null = first;
  const closing = new AbortController();
  /** The lock is held as long as its session answers. */
  const stillHeld = async () => {
    const session = holder;
    holder = null;
    if (session === null) return;
    try {
      await session.query("select");
      holder = session;
    } catch {
      void leaveState(session);
    }
  };
  const takeAgain = async () => {
    const session = await open(config);
    try {
      if (await acquireWithin(session, bounds.reacquireMs, closing.signal)) holder = session;
      else if (!closing.signal.aborted) lost.abort(await inUse(session));
    } finally {
      if (holder !== session) await leaveState(session);
    }
  };
  const verify = async () => {
    await stillHeld();
    if (holder === null && !closing.signal.aborted) await takeAgain();
  };
  let check: Promise<void> | null = null;
  const timer = setInterval(() => {
    // An unreachable server proves nothing: connectors go on, and the next round asks again.
    check ??= verify()
      .catch(() => {})
      .finally(() => {
        check = null;
      });
  }, bounds.watchMs);
  return {
    lost: lost.signal,
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      closing.abort();
      await check;
      if (holder) await leaveState(holder);
    },
  };
}
