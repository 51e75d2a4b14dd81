// Reports what the creation of a slot waits for. The server waits for every write transaction that is running at that
// moment. A standby reads of them in its primary's log.
// https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-CREATE-REPLICATION-SLOT
// https://www.postgresql.org/docs/current/logicaldecoding-explanation.html#LOGICALDECODING-REPLICATION-SLOTS

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

/** Of a standby. Version 17 spells the event in another way. */
const standbyQuery = `
select lower(wait_event) = 'walsenderwaitforwal' as "waitsForLog"
from pg_stat_activity where pid = $1 and pg_is_in_recovery()`;

const primarySeen =
  "the primary to log which transactions are open. It does so every 15 s while something is written there, and up to three times " +
  "are needed. To have it sooner, run SELECT pg_log_standby_snapshot(); at the primary.";

/** What is waited for, and SQL that would end the wait, without semicolons. */
export interface Blockage {
  readonly text: string;
  readonly commands: readonly string[];
}

export interface CreationWatch {
  /** What it was seen to wait for last; null: nothing was. */
  readonly seen: Blockage | null;
  /** The walsender reads the log as far as a standby has it: it waits for more, and not for its client. */
  readonly waitsForLog: boolean;
  stop(): Promise<void>;
}

/**
 * Reports through `warn` what the walsender `pid` waits for, and null when the wait is over. Nothing else may use
 * `control` meanwhile.
 */
export function watchSlotCreation(
  control: Client,
  pid: number,
  warn: (reason: string | null, commands?: readonly string[]) => void,
  firstCheckMs = defaultFirstCheckMs,
): CreationWatch {
  let seen: Blockage | null = null;
  let waitsForLog = false;
  let checking: Promise<void> = Promise.resolve();
  const check = async () => {
    const { rows: blockers } = await control.query<Blocker>(blockerQuery, [pid]);
    const { rows: ofStandby } = await control.query<{ waitsForLog: boolean | null }>(standbyQuery, [pid]);
    waitsForLog = ofStandby[0]?.waitsForLog ?? false;
    if (blockers[0]) seen = describeBlocker(blockers[0]);
    else if (ofStandby[0]) seen = { text: primarySeen, commands: [] };
    else return;
    warn(`Making a replication slot waits for ${seen.text}`, seen.commands);
  };
  const schedule = (delayMs: number): ReturnType<typeof setTimeout> =>
    setTimeout(() => {
      checking = check().catch(() => {
        waitsForLog = false;
      });
      timer = schedule(checkEveryMs);
    }, delayMs);
  let timer = schedule(firstCheckMs);
  return {
    get seen() {
      return seen;
    },
    get waitsForLog() {
      return waitsForLog;
    },
    async stop() {
      clearTimeout(timer);
      await checking;
      if (seen !== null) warn(null);
    },
  };
}

function describeBlocker({ pid, gid, state, query, ageSeconds }: Blocker): Blockage {
  const age = ageSeconds === null ? "for a time that the role may not see" : `for ${ageSeconds} s`;
  if (pid === 0) {
    const end = gid === null ? null : `ROLLBACK PREPARED ${escapeLiteral(gid)}`;
    const text = `a prepared transaction, open ${age}. If it was forgotten: ${end ?? "ROLLBACK PREPARED …"};`;
    return { text, commands: end === null ? [] : [end] };
  }
  const end = `SELECT pg_terminate_backend(${pid})`;
  const text =
    `the transaction of process ${pid}, open ${age} (${state}: ${query ?? "not visible to the role"}). ` +
    `If it is stuck: ${end};`;
  return { text, commands: [end] };
}
