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
  /** How long a question may go without an answer: then it is asked of another session. */
  readonly answerMs: number;
}

const defaultBounds: LockBounds = { acquireMs: 5_000, watchMs: 2_000, answerMs: 5_000 };
const retryMs = 100;
/** The server gives up a session whose other end has gone within about a minute: its lock stands in the way of the next service. */
const deadSessionSql =
  "set tcp_keepalives_idle = 20; set tcp_keepalives_interval = 10; set tcp_keepalives_count = 3; set tcp_user_timeout = '50s'";

export interface ServiceLock extends AsyncDisposable {
  /** Aborted when another service holds the lock in our place. */
  readonly lost: AbortSignal;
}

/** A session, also when nobody hears of it any more. */
interface Session {
  readonly client: Client;
  readonly pid: number;
  /** A process id may be used again. */
  readonly startedAt: string;
}

/** Who holds the lock. */
interface Holder extends Omit<Session, "client"> {
  readonly address: string;
}

/** Takes the lock. Throws `invalid_setting`, naming the holder's session, when another service keeps it. */
export async function holdServiceLock(config: ClientConfig, bounds = defaultBounds): Promise<ServiceLock> {
  const session = await open(config, bounds);
  try {
    for (
      const deadline = performance.now() + bounds.acquireMs;
      !(await tryLock(session));
      await Bun.sleep(retryMs)
    ) {
      if (performance.now() >= deadline) throw inUse(await holderOf(session));
    }
    return watch(config, session, bounds);
  } catch (error) {
    await leaveState(session.client);
    throw error;
  }
}

async function open(config: ClientConfig, { answerMs }: LockBounds): Promise<Session> {
  const application = { query_timeout: answerMs, application_name: "millrace service lock" };
  const client = await connectToState({ ...config, ...application });
  try {
    await client.query(deadSessionSql);
    const { rows } = await client.query<Omit<Session, "client">>(
      `select pid, backend_start::text as "startedAt" from pg_stat_activity where pid = pg_backend_pid()`,
    );
    return { client, ...rows[0]! };
  } catch (error) {
    await leaveState(client);
    throw error;
  }
}

async function tryLock({ client }: Session): Promise<boolean> {
  const { rows } = await client.query<{ locked: boolean }>("select pg_try_advisory_lock($1, $2) as locked", [
    ...lockName,
  ]);
  return rows[0]?.locked === true;
}

/** Null: nobody does by now. */
async function holderOf({ client }: Session): Promise<Holder | null> {
  const { rows } = await client.query<Holder>(
    `select a.pid, a.backend_start::text as "startedAt", coalesce(host(a.client_addr), 'a local socket') as address
     from pg_locks l join pg_stat_activity a on a.pid = l.pid
     where l.locktype = 'advisory' and l.classid = $1::int4::oid and l.objid = $2::int4::oid and l.granted
       and l.database = (select oid from pg_database where datname = current_database())`,
    [...lockName],
  );
  return rows[0] ?? null;
}

function inUse(holder: Holder | null): MillraceError {
  const who = holder ? ` (its session there is pid ${holder.pid}, from ${holder.address})` : "";
  return new MillraceError(
    "invalid_setting",
    `Another millrace works on the state database of DATABASE_URL${who}. Stop it, or give this one another database.`,
  );
}

/** The session may die with its server or network. The next one takes the lock again, unless another service was faster. */
function watch(config: ClientConfig, first: Session, bounds: LockBounds): ServiceLock {
  const lost = new AbortController();
  const closing = new AbortController();
  /** The last session that held the lock: the server may not know yet that it is dead. */
  let holder = first;
  let isHeld = true;
  const isOver = () => closing.signal.aborted || lost.signal.aborted;
  /** The lock is held as long as its session answers. */
  const look = async () => {
    try {
      await holder.client.query("select");
    } catch {
      isHeld = false;
      void leaveState(holder.client);
    }
  };
  const takeAgain = async () => {
    const session = await open(config, bounds);
    try {
      while (!isOver() && !(await tryLock(session))) {
        const other = await holderOf(session);
        const isOurs = other?.pid === holder.pid && other.startedAt === holder.startedAt;
        if (isOurs) await session.client.query("select pg_terminate_backend($1)", [holder.pid]);
        else if (other) lost.abort(inUse(other));
        await Bun.sleep(retryMs);
      }
      if (isOver()) return;
      holder = session;
      isHeld = true;
    } finally {
      if (holder !== session) await leaveState(session.client);
    }
  };
  const verify = async () => {
    if (isHeld) await look();
    if (!isHeld && !isOver()) await takeAgain();
  };
  let check: Promise<void> | null = null;
  const timer = setInterval(() => {
    if (isOver()) return;
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
      if (isHeld) await leaveState(holder.client);
    },
  };
}
