// One at a time migrates a state database: a session-level advisory lock. Services from before leases hold the same lock
// for as long as they run, and so keep this one out.
// https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS

import type { Sql } from "postgres";
import { MillraceError } from "../../errors/millrace-error.ts";

/** "mill" and "race" as two int4: the lock's key in the database. */
const lockName = [0x6d696c6c, 0x72616365] as const;
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
 * Acquires the lock for the session, which is called `name`, and holds it until the session ends. Throws `invalid_setting`, naming the
 * holder's session, when one keeps it for longer than `acquireMs`. One of the same name migrates: it is waited for as long as it may take.
 */
export async function acquireMigrationLock(sql: Sql, name: string, acquireMs: number): Promise<void> {
  await sql.unsafe(deadSessionSql);
  const beganMs = performance.now();
  for (; !(await tryLock(sql)); await Bun.sleep(retryMs)) {
    const waitedMs = performance.now() - beganMs;
    if (waitedMs < acquireMs) continue;
    const holder = await holderOf(sql);
    if (holder && (holder.name !== name || waitedMs >= migrationMs)) throw inUse(holder);
  }
}

async function tryLock(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ locked: boolean }[]>`
    select pg_try_advisory_lock(${lockName[0]}, ${lockName[1]}) as locked`;
  return row?.locked === true;
}

/** Null: nobody holds the lock any more. */
async function holderOf(sql: Sql): Promise<Holder | null> {
  const [holder] = await sql<Holder[]>`
    select a.application_name as name, a.pid, coalesce(host(a.client_addr), 'a local socket') as address
    from pg_locks l join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'advisory' and l.classid = ${lockName[0]}::int4::oid and l.objid = ${lockName[1]}::int4::oid
      and l.objsubid = 2 and l.granted and l.database = (select oid from pg_database where datname = current_database())`;
  return holder ?? null;
}

function inUse({ pid, address }: Holder): MillraceError {
  const who = ` (its session there is pid ${pid}, from ${address})`;
  return new MillraceError(
    "invalid_setting",
    `Another millrace works on the state database of DATABASE_URL${who}. Stop it, or give this one another database.`,
  );
}
