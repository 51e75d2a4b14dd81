// Finds who blocks us from locking a table, for people. It never quotes a query: a query may contain values.

import type { Client } from "pg";
import { describeProcess } from "../../../connection/blocking-session.ts";

/** A session that waits for such a lock blocks later ones as its holder does. */
const holderQuery = `
select l.relation::regclass::text as relation, l.pid, l.granted as "isHeld", a.application_name as application,
  to_char(a.xact_start at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as since,
  coalesce(a.backend_type = 'autovacuum worker', false) as "isAutovacuum"
from pg_locks l
join pg_class c on c.oid = l.relation and c.relkind in ('r', 'p') and c.relnamespace <> 'pg_catalog'::regnamespace
left join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'relation' and l.mode = any ($1) and l.pid <> pg_backend_pid()
  and l.database = (select oid from pg_database where datname = current_database())
  and ($2::int8[] is null or l.relation::int8 = any ($2))
order by l.granted desc, a.xact_start limit 1`;

interface Holder {
  readonly relation: string;
  readonly pid: number;
  readonly isHeld: boolean;
  readonly application: string | null;
  readonly since: string | null;
  readonly isAutovacuum: boolean;
}

export interface BlockingLock {
  /** The table's name at the source, as Postgres prints it. */
  readonly table: string;
  /** `process 12 (psql, in a transaction since …) holds the lock`. */
  readonly who: string;
  /** The SQL that terminates the blocking process. */
  readonly terminateSql: string;
  /** Autovacuum yields to a session that has waited for deadlock_timeout. */
  readonly isAutovacuum: boolean;
}

/**
 * The session that holds or awaits a lock of one of these modes, on one of these tables or on any (null). Null: nobody
 * does any more.
 */
export async function readLockHolder(
  client: Client,
  modes: readonly string[],
  tableIds: readonly number[] | null,
): Promise<BlockingLock | null> {
  const { rows } = await client.query<Holder>(holderQuery, [modes, tableIds]);
  const [holder] = rows;
  if (!holder) return null;
  const { relation, pid, isHeld, application, since, isAutovacuum } = holder;
  const who = describeProcess(pid, [application, since && `in a transaction since ${since}`]);
  return {
    table: relation,
    who: `${who} ${isHeld ? "holds" : "waits for"} the lock`,
    terminateSql: `SELECT pg_terminate_backend(${pid});`,
    isAutovacuum,
  };
}
