// Ensures that one service at a time uses a state database: a session-level advisory lock on a connection of its own.
// https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS

import { MillraceError } from "../../errors/millrace-error.ts";
import type { StateConnection } from "./state-session.ts";
import { StateSession } from "./state-session.ts";

/** "mill" and "race" as two int4: the lock's key in the database. */
const lockName = [0x6d696c6c, 0x72616365] as const;

export interface LockBounds {
  /** How long a start waits for a service that is shutting down. */
  readonly acquireMs: number;
  /** How often the session is checked. */
  readonly watchMs: number;
  /** How long a query may go without an answer before another session is opened. */
  readonly answerMs: number;
}

const defaultBounds: LockBounds = { acquireMs: 5_000, watchMs: 2_000, answerMs: 5_000 };
const retryMs = 100;
/**
 * The server drops a session whose client is gone within about a minute. Until then its lock blocks the next service.
 */
const deadSessionSql =
  "set tcp_keepalives_idle = 20; set tcp_keepalives_interval = 10; set tcp_keepalives_count = 3; set tcp_user_timeout = '50s'";

export interface ServiceLock extends AsyncDisposable {
  /** Aborted when another service has taken the lock from us. */
  readonly lost: AbortSignal;
}

/** A session of ours, even if it no longer answers. */
interface LockSession {
  readonly session: StateSession;
  /** Identifies the session together with the process id, which the server may use again. */
  readonly startedAt: string;
}

/** The session that holds the lock. */
interface Holder {
  readonly pid: number;
  readonly startedAt: string;
  readonly address: string;
}

/** Acquires the lock. Throws `invalid_setting`, naming the holder's session, when another service keeps it. */
export async function acquireServiceLock(
  config: StateConnection,
  bounds = defaultBounds,
): Promise<ServiceLock> {
  const own = await open(config, bounds);
  try {
    for (
      const deadline = performance.now() + bounds.acquireMs;
      !(await tryLock(own));
      await Bun.sleep(retryMs)
    ) {
      if (performance.now() >= deadline) throw inUse(await holderOf(own));
    }
    return watch(config, own, bounds);
  } catch (error) {
    await own.session[Symbol.asyncDispose]();
    throw error;
  }
}

async function open(config: StateConnection, { answerMs }: LockBounds): Promise<LockSession> {
  const session = await StateSession.open(config, { name: "millrace service lock", answerMs });
  try {
    const startedAt = await session.run(async (sql) => {
      await sql.unsafe(deadSessionSql);
      const [row] = await sql<{ at: string }[]>`
        select backend_start::text as at from pg_stat_activity where pid = pg_backend_pid()`;
      return row!.at;
    });
    return { session, startedAt };
  } catch (error) {
    await session[Symbol.asyncDispose]();
    throw error;
  }
}

async function tryLock({ session }: LockSession): Promise<boolean> {
  const [row] = await session.run(
    async (sql) =>
      await sql<{ locked: boolean }[]>`select pg_try_advisory_lock(${lockName[0]}, ${lockName[1]}) as locked`,
  );
  return row?.locked === true;
}

/** Null: nobody holds the lock any more. */
async function holderOf({ session }: LockSession): Promise<Holder | null> {
  const [holder] = await session.run(
    async (sql) =>
      await sql<Holder[]>`
      select a.pid, a.backend_start::text as "startedAt", coalesce(host(a.client_addr), 'a local socket') as address
      from pg_locks l join pg_stat_activity a on a.pid = l.pid
      where l.locktype = 'advisory' and l.classid = ${lockName[0]}::int4::oid and l.objid = ${lockName[1]}::int4::oid
        and l.granted and l.database = (select oid from pg_database where datname = current_database())`,
  );
  return holder ?? null;
}

function inUse(holder: Holder | null): MillraceError {
  const who = holder ? ` (its session there is pid ${holder.pid}, from ${holder.address})` : "";
  return new MillraceError(
    "invalid_setting",
    `Another millrace works on the state database of DATABASE_URL${who}. Stop it, or give this one another database.`,
  );
}

/**
 * The session may die with its server or network. The next one acquires the lock again, unless another service was
 * faster.
 */
function watch(config: StateConnection, first: LockSession, bounds: LockBounds): ServiceLock {
  const lost = new AbortController();
  const closing = new AbortController();
  /** Our last session that held the lock: the server may not know yet that it is dead. */
  let holder = first;
  let isHeld = true;
  const isOver = () => closing.signal.aborted || lost.signal.aborted;
  /** We hold the lock as long as its session answers. */
  const check = async () => {
    try {
      await holder.session.run(async (sql) => await sql`select`);
    } catch {
      isHeld = false;
      void holder.session[Symbol.asyncDispose]();
    }
  };
  const reacquire = async () => {
    const own = await open(config, bounds);
    try {
      while (!isOver() && !(await tryLock(own))) {
        const other = await holderOf(own);
        const isOurs = other?.pid === holder.session.pid && other.startedAt === holder.startedAt;
        const { pid } = holder.session;
        if (isOurs) await own.session.run(async (sql) => await sql`select pg_terminate_backend(${pid})`);
        else if (other) lost.abort(inUse(other));
        await Bun.sleep(retryMs);
      }
      if (isOver()) return;
      holder = own;
      isHeld = true;
    } finally {
      if (holder !== own) await own.session[Symbol.asyncDispose]();
    }
  };
  const verify = async () => {
    if (isHeld) await check();
    if (!isHeld && !isOver()) await reacquire();
  };
  let verifying: Promise<void> | null = null;
  const timer = setInterval(() => {
    if (isOver()) return;
    // An unreachable server proves nothing: connectors continue, and the next check tries again.
    verifying ??= verify()
      .catch(() => {})
      .finally(() => {
        verifying = null;
      });
  }, bounds.watchMs);
  return {
    lost: lost.signal,
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      closing.abort();
      await verifying;
      if (isHeld) await holder.session[Symbol.asyncDispose]();
    },
  };
}
