// Describes what a session at the sink waits for: a lock, with its table and its holder, or a synchronous standby.

import type { Client } from "pg";
import { describeProcess } from "../../../connection/blocking-session.ts";

interface Blocker {
  readonly relation: string | null;
  readonly pid: number;
  readonly application: string | null;
  readonly state: string | null;
  readonly since: string | null;
}

/** Reports the lock that a session waits for, and when the wait is over. */
export class LockWait {
  #isReported = false;

  constructor(private readonly report: (reason: string | null) => void) {}

  /** Checks, in another session, the one with this process id. */
  readonly check = async (observer: Client, pid: number): Promise<void> =>
    this.show(await describeLockWait(observer, pid).catch(() => null));

  show(reason: string | null): void {
    if (reason === null && !this.#isReported) return;
    this.#isReported = reason !== null;
    this.report(reason);
  }
}

/** No query text: it may hold values. */
const blockersSql = `
select (select l.relation::regclass::text from pg_locks l where l.pid = $1 and not l.granted and l.relation is not null limit 1)
    as relation, b.pid, a.application_name as application, a.state,
  to_char(a.xact_start at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as since
from unnest(pg_blocking_pids($1)) as b(pid) left join pg_stat_activity a on a.pid = b.pid
order by a.xact_start limit 1`;

/** https://www.postgresql.org/docs/current/warm-standby.html#SYNCHRONOUS-REPLICATION */
const standbySql = "select from pg_stat_activity where pid = $1 and wait_event = 'SyncRep'";
const standbyText =
  "The sink's COMMIT waits for a standby that does not answer, and goes on when it does: start that, or take it out of " +
  "synchronous_standby_names.";

/** Null: the session with this process id waits neither for a lock nor for a standby. */
async function describeLockWait(observer: Client, pid: number): Promise<string | null> {
  const { rows } = await observer.query<Blocker>(blockersSql, [pid]);
  const [blocker] = rows;
  if (!blocker) return (await observer.query(standbySql, [pid])).rowCount ? standbyText : null;
  const table = blocker.relation === null ? "a row or a transaction" : `table ${blocker.relation}`;
  const { pid: holder, application, state, since } = blocker;
  const who = describeProcess(holder, [application, state, since && `in a transaction since ${since}`]);
  return (
    `The sink waits for a lock on ${table} that ${who} holds, and goes on when it is let go: end that transaction, or run ` +
    `SELECT pg_terminate_backend(${holder});`
  );
}
