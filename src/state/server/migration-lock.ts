// Advisory locks of a state database. One at a time migrates it. Services from before leases hold a lock alone for as long as they run.
// Replicas share that lock: so such a service keeps them out, and they keep it out, also one that lost its session to the server and goes on.
// https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS

import type { Sql } from "postgres";
import { MillraceError } from "../../errors/millrace-error.ts";

/** Two int4: the lock's key in the database. */
type LockName = readonly [number, number];
/** "mill" and "race". */
const serviceLock: LockName = [0x6d696c6c, 0x72616365];
/** "mill" and "migr". */
const migrationLock: LockName = [0x6d696c6c, 0x6d696772];

const retryMs = 100;
/** How long another one may migrate. */
const migrationMs = 10 * 60_000;
/**
 * The server drops a session whose client is gone within about a minute. Until then its lock blocks the next service.
 */
const deadSessionSql =
  "set tcp_keepalives_idle = 20; set tcp_keepalives_interval = 10; set tcp_keepalives_count = 3; set tcp_user_timeout = '50s'";

/** The session that holds the lock. */
interface Holder {
  readonly name: string;
  readonly pid: number;
  readonly address: string;
}

/**
 * Acquires what a session needs that migrates and is called `name`, until the session ends. Throws `invalid_setting`, naming the
 * holder's session, when a service from before leases stays for longer than `acquireMs`. One of the same name migrates: it is waited for as
 * long as it may take.
 */
export async function acquireMigrationLock(sql: Sql, name: string, acquireMs: number): Promise<void> {
  await sql.unsafe(deadSessionSql);
  await acquire(sql, serviceLock, () => shareServiceLock(sql), { name, acquireMs });
  await acquire(sql, migrationLock, () => lockMigration(sql), { name, acquireMs });
}

/** Shares the lock until the session ends. Throws `invalid_setting` while a service from before leases holds it. */
export async function requireServiceLock(sql: Sql): Promise<void> {
  await acquire(sql, serviceLock, () => shareServiceLock(sql), { name: null, acquireMs: 0 });
}

/** The same; returns whether it could. */
export async function shareServiceLock(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ locked: boolean }[]>`
    select pg_try_advisory_lock_shared(${serviceLock[0]}, ${serviceLock[1]}) as locked`;
  return row?.locked === true;
}

async function lockMigration(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ locked: boolean }[]>`
    select pg_try_advisory_lock(${migrationLock[0]}, ${migrationLock[1]}) as locked`;
  return row?.locked === true;
}

interface Patience {
  /** The name of sessions that migrate; null: nobody is waited for. */
  readonly name: string | null;
  readonly acquireMs: number;
}

async function acquire(
  sql: Sql,
  lock: LockName,
  tryLock: () => Promise<boolean>,
  { name, acquireMs }: Patience,
): Promise<void> {
  const beganMs = performance.now();
  for (; !(await tryLock()); await Bun.sleep(retryMs)) {
    const waitedMs = performance.now() - beganMs;
    if (waitedMs < acquireMs) continue;
    const holder = await holderOf(sql, lock);
    if (holder && (holder.name !== name || waitedMs >= migrationMs))
      throw inUse(holder, holder.name === name);
  }
}

/** Null: nobody holds the lock alone any more. */
async function holderOf(sql: Sql, lock: LockName): Promise<Holder | null> {
  const [holder] = await sql<Holder[]>`
    select a.application_name as name, a.pid, coalesce(host(a.client_addr), 'a local socket') as address
    from pg_locks l join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'advisory' and l.classid = ${lock[0]}::int4::oid and l.objid = ${lock[1]}::int4::oid
      and l.objsubid = 2 and l.granted and l.mode = 'ExclusiveLock'
      and l.database = (select oid from pg_database where datname = current_database())`;
  return holder ?? null;
}

function inUse({ pid, address }: Holder, migrates: boolean): MillraceError {
  const who = ` (its session there is pid ${pid}, from ${address})`;
  const what = migrates
    ? `Another millrace has been changing the tables of the state database of DATABASE_URL for long${who}.`
    : `Another millrace works on the state database of DATABASE_URL${who}. It is of a version that shares it with no other.`;
  return new MillraceError("invalid_setting", `${what} Stop it, or give this one another database.`);
}
