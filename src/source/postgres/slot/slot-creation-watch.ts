// Creating a slot waits for every write transaction that runs at that moment. Someone who waits with it deserves to
// know for whom.
// https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-CREATE-REPLICATION-SLOT

import { type Client, escapeLiteral } from "pg";

const defaultFirstLookMs = 2_000;
const lookEveryMs = 5_000;

/**
 * Of the transactions that the walsender waits for, one at a time; pid 0 is a prepared one. Another role's query and age
 * show to members of pg_read_all_stats only.
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
  /** Who is waited for, as it was seen last; null: nobody was. */
  readonly seen: string | null;
  stop(): Promise<void>;
}

/**
 * Reports through `warn` whom the walsender `pid` waits for; null when the wait is over. `control` must be idle meanwhile.
 */
export function watchSlotCreation(
  control: Client,
  pid: number,
  warn: (reason: string | null) => void,
  firstLookMs = defaultFirstLookMs,
): CreationWatch {
  let seen: string | null = null;
  let looking: Promise<void> = Promise.resolve();
  const look = async () => {
    const { rows } = await control.query<Blocker>(blockerQuery, [pid]);
    if (!rows[0]) return;
    seen = describeBlocker(rows[0]);
    warn(`Making a replication slot waits for ${seen}`);
  };
  const schedule = (delayMs: number): ReturnType<typeof setTimeout> =>
    setTimeout(() => {
      looking = look().catch(() => {});
      timer = schedule(lookEveryMs);
    }, delayMs);
  let timer = schedule(firstLookMs);
  return {
    get seen() {
      return seen;
    },
    async stop() {
      clearTimeout(timer);
      await looking;
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
