// Finds the transaction for which a slot keeps log that is acknowledged: the oldest one that has written something, in any database of the
// server. It is decoded from its beginning when it commits. No query is quoted: a query may contain values.

import { type Client, escapeLiteral } from "pg";
import { describeProcess } from "../../../connection/blocking-session.ts";

/**
 * A slot releases log once the server has logged what is running, within 15 s. So it need not be a younger transaction. When those of other
 * roles began, members of pg_read_all_stats see. A standby knows nothing of its primary's.
 */
const oldestQuery = `
select pid, gid, database, application, to_char(since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as since
from (
  select pid, null as gid, datname as database, application_name as application, xact_start as since, backend_xid as xid
  from pg_stat_activity where backend_xid is not null
  union all
  select null, gid, database, null, prepared, transaction from pg_prepared_xacts
  union all
  select null, null, null, null, null, null where pg_is_in_recovery()
) writer
where coalesce(since < now() - interval '15 seconds', true)
order by age(xid) desc nulls last limit 1`;

interface Writer {
  readonly pid: number | null;
  /** Of a prepared transaction. */
  readonly gid: string | null;
  readonly database: string | null;
  readonly application: string | null;
  readonly since: string | null;
}

/** Names it, with the SQL that ends it; null: there is none, and the log is released within a minute. */
export async function describeOldestWriter(client: Client): Promise<string | null> {
  const { rows } = await client.query<Writer>(oldestQuery);
  const [writer] = rows;
  return writer ? describe(writer) : null;
}

function describe({ pid, gid, database, application, since }: Writer): string {
  const open = since && `open since ${since}`;
  if (pid !== null) {
    const who = describeProcess(pid, [application, open]);
    return `the transaction of ${who}. If it is stuck: SELECT pg_terminate_backend(${pid});`;
  }
  if (gid === null) return "a transaction that is open at the primary, or was until just now.";
  const rollback = `ROLLBACK PREPARED ${escapeLiteral(gid)};`;
  return `a prepared transaction, ${open}. If it was forgotten, in database ${database}: ${rollback}`;
}
