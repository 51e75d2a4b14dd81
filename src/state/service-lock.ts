// One service on one state database at a time: a session-level advisory lock on a connection of its own.
// https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS

import postgres from "postgres";
import { MillraceError } from "../errors/millrace-error.ts";

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
const answerMs = 5_000;

export interface ServiceLock extends AsyncDisposable {
  /** Aborted when another service holds the lock in our place. */
  readonly lost: AbortSignal;
}

/** Takes the lock. Throws `invalid_setting`, naming the holder's session, when another service keeps it. */
export async function holdServiceLock(url: string, bounds = defaultBounds): Promise<ServiceLock> {
  const client = open(url);
  try {
    if (!(await acquireWithin(client, bounds.acquireMs))) throw await inUse(client);
    return watch(url, client, await sessionPid(client), bounds);
  } catch (error) {
    await client.end({ timeout: 1 });
    throw error;
  }
}

function open(url: string): postgres.Sql {
  return postgres(url, {
    max: 1,
    idle_timeout: 0,
    max_lifetime: null,
    connect_timeout: 10,
    onnotice: () => {},
    connection: { application_name: "millrace service lock" },
  });
}

/** A client whose connection was reset may take queries, and answer none of them for ever. */
async function answered<Result>(query: Promise<Result>): Promise<Result> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error("no answer")), answerMs);
  return await Promise.race([query, promise]).finally(() => clearTimeout(timer));
}

async function acquireWithin(client: postgres.Sql, boundMs: number): Promise<boolean> {
  for (const deadline = Date.now() + boundMs; ; ) {
    const [row] = await answered(
      client<{ locked: boolean }[]>`select pg_try_advisory_lock(${lockName[0]}, ${lockName[1]}) as locked`,
    );
    if (row?.locked) return true;
    if (Date.now() >= deadline) return false;
    await Bun.sleep(retryMs);
  }
}

async function sessionPid(client: postgres.Sql): Promise<number> {
  const [row] = await answered(client<{ pid: number }[]>`select pg_backend_pid() as pid`);
  return row?.pid ?? 0;
}

async function inUse(client: postgres.Sql): Promise<MillraceError> {
  const [holder] = await client<{ pid: number; address: string }[]>`
    select a.pid, coalesce(host(a.client_addr), 'a local socket') as address
    from pg_locks l join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'advisory' and l.classid = ${lockName[0]} and l.objid = ${lockName[1]} and l.granted`;
  const who = holder ? ` (its session there is pid ${holder.pid}, from ${holder.address})` : "";
  return new MillraceError(
    "invalid_setting",
    `Another millrace works on the state database of DATABASE_URL${who}. Stop it, or give this one another database.`,
  );
}

/** The session may die with its server or network. The next one takes the lock again, unless another service was faster. */
function watch(url: string, first: postgres.Sql, pid: number, bounds: LockBounds): ServiceLock {
  const lost = new AbortController();
  let client = first;
  let holder = pid;
  let check: Promise<void> = Promise.resolve();
  const verify = async () => {
    const current = await sessionPid(client);
    if (current === holder) return;
    if (await acquireWithin(client, bounds.reacquireMs)) holder = await sessionPid(client);
    else lost.abort(await inUse(client));
  };
  let busy = false;
  const timer = setInterval(() => {
    if (busy) return;
    busy = true;
    // An unreachable server proves nothing: connectors go on, and the next round asks again, by another client.
    check = verify()
      .catch(() => {
        leave(client);
        client = open(url);
      })
      .finally(() => {
        busy = false;
      });
  }, bounds.watchMs);
  return {
    lost: lost.signal,
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      await client.end({ timeout: 1 });
      await check;
      leave(client);
    },
  };
}

function leave(client: postgres.Sql): void {
  void client.end({ timeout: 0 }).catch(() => {});
}
