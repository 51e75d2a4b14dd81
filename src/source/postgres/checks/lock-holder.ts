// Who keeps a lock of a table from us, for people. No query text: it may hold values.

import type { Client } from "pg";
import { describeProcess } from "../../../connection/holding-session.ts";

/** Who waits for such a lock keeps others waiting like who has it. */
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

export interface HeldLock {
  /** At the source, as it prints. */
  readonly table: string;
  /** `process 12 (psql, in a transaction since …) holds the lock`. */
  readonly who: string;
  /** The SQL that ends the wait. */
  readonly end: string;
  /** It makes room for who waits for as long as the server takes to look for deadlocks. */
  readonly isAutovacuum: boolean;
}

/** Who has or wants a lock of one of these modes, on one of these tables, or on any (null); null: nobody any more. */
export async function readLockHolder(
  client: Client,
  modes: readonly string[],
  tableIds: readonly number[] | null,
): Promise<HeldLock | null> {
  const { rows } = await client.query<Holder>(holderQuery, [modes, tableIds]);
  const [holder] = rows;
  if (!holder) return null;
  const { relation, pid, isHeld, application, since, isAutovacuum } = holder;
  const who = describeProcess(pid, [application, since && `in a transaction since ${since}`]);
  return {
    table: relation,
    who: `${who} ${isHeld ? "holds" : "waits for"} the lock`,
    end: `SELECT pg_terminate_backend(${pid});`,
    isAutovacuum,
  };
}
