// Reports which transaction the creation of a slot waits for. The server waits for every write transaction that is
// running at that moment.
// https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-CREATE-REPLICATION-SLOT

import { type Client, escapeLiteral } from "pg";

const defaultFirstCheckMs = 2_000;
const checkEveryMs = 5_000;

/**
 * The oldest transaction that blocks the walsender; pid 0 is a prepared one. Queries and start times of other roles are
 * visible to members of pg_read_all_stats only.
 */
const blockerQuery = `
select b.pid, x.gid, coalesce(a.state, 'prepared') as state, left(a.query, 200) as query,
  extract(epoch from now() - coalesce(a.xact_start, x.prepared))::int4 as "ageSeconds"
from unnest(pg_blocking_pids($1)) as b (pid)
left join pg_stat_activity a on a.pid = b.pid
left join lateral (
  select gid, prepared from pg_prepared_xacts where b.pid = 0 order by prepared limit 1
) x on true
order by "ageSeconds" desc nulls last limit 1`;

interface Blocker {
  readonly pid: number;
  readonly gid: string | null;
  readonly state: string;
  readonly query: string | null;
  readonly ageSeconds: number | null;
}

export interface CreationWatch {
  /** The blocker that was seen last; null: none was. */
  readonly seen: string | null;
  stop(): Promise<void>;
}

/**
 * Reports through `warn` what blocks the walsender `pid`, and null when the wait is over. Nothing else may use
 * `control` meanwhile.
 */
export function watchSlotCreation(
  control: Client,
  pid: number,
  warn: (reason: string | null) => void,
  firstCheckMs = defaultFirstCheckMs,
): CreationWatch {
  let seen: string | null = null;
  let checking: Promise<void> = Promise.resolve();
  const check = async () => {
    const { rows } = await control.query<Blocker>(blockerQuery, [pid]);
    if (!rows[0]) return;
    seen = describeBlocker(rows[0]);
    warn(`Making a replication slot waits for ${seen}`);
  };
  const schedule = (delayMs: number): ReturnType<typeof setTimeout> =>
    setTimeout(() => {
      checking = check().catch(() => {});
      timer = schedule(checkEveryMs);
    }, delayMs);
  let timer = schedule(firstCheckMs);
  return {
    get seen() {
      return seen;
    },
    async stop() {
      clearTimeout(timer);
      await checking;
      if (seen !== null) warn(null);
    },
  };
}

function describeBlocker({ pid, gid, state, query, ageSeconds }: Blocker): string {
  const age = ageSeconds === null ? "for a time that the role may not see" : `for ${ageSeconds} s`;
  if (pid === 0) {
    const end = gid === null ? "ROLLBACK PREPARED …;" : `ROLLBACK PREPARED ${escapeLiteral(gid)};`;
    return `a prepared transaction, open ${age}. If it was forgotten: ${end}`;
  }
  return (
    `the transaction of process ${pid}, open ${age} (${state}: ${query ?? "not visible to the role"}). ` +
    `If it is stuck: SELECT pg_terminate_backend(${pid});`
  );
}
