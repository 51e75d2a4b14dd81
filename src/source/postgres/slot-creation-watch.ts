// Creating a slot waits for every write transaction that runs at that moment. Someone who waits with it deserves to
// know for whom.
// https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-CREATE-REPLICATION-SLOT

import type { Client } from "pg";

const firstLookMs = 3_000;
const lookEveryMs = 5_000;

const oldestWriterQuery = `
select pid, extract(epoch from now() - xact_start)::int4 as age_seconds, state, left(query, 200) as query
from pg_stat_activity
where backend_xid is not null and pid <> pg_backend_pid()
order by xact_start limit 1`;

interface WriterRow {
  pid: number;
  age_seconds: number;
  state: string;
  query: string;
}

/** Reports through `warn` who is waited for; null when the wait is over. `control` must be idle meanwhile. */
export function watchSlotCreation(
  control: Client,
  warn: (reason: string | null) => void,
): { stop(): Promise<void> } {
  let hasWarned = false;
  let looking: Promise<void> = Promise.resolve();
  const look = async () => {
    const { rows } = await control.query<WriterRow>(oldestWriterQuery);
    const writer = rows[0];
    if (!writer) return;
    hasWarned = true;
    warn(
      `Creating the replication slot waits for transaction of process ${writer.pid}, open for ${writer.age_seconds} s ` +
        `(${writer.state}: ${writer.query}). End it with SELECT pg_terminate_backend(${writer.pid}); if it is stuck.`,
    );
  };
  const schedule = (delayMs: number): ReturnType<typeof setTimeout> =>
    setTimeout(() => {
      looking = look().catch(() => {});
      timer = schedule(lookEveryMs);
    }, delayMs);
  let timer = schedule(firstLookMs);
  return {
    async stop() {
      clearTimeout(timer);
      await looking;
      if (hasWarned) warn(null);
    },
  };
}
