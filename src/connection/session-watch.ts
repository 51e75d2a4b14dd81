// Notices that a session's other end is gone while a statement runs. A server that died without a word, or a network that
// drops packets or has forgotten the connection, would keep the statement waiting until TCP gives up, a quarter of an hour
// later or never.

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import type { PostgresConnection } from "../connector/config/connection.ts";
import { hasOneSession } from "./has-one-session.ts";
import { destroyClient, processIdOf, socketOf, withPostgres } from "./postgres-client.ts";
import { type PostgresSide, sqlStateOf } from "./postgres-failure.ts";
import type { TakesTurns } from "./turns.ts";

const lookEveryMs = 5_000;
/** Behind a look that raised a suspicion. */
const lookAgainMs = 2_000;
/** A look that hangs, as its own connection is dead, must not keep the others. */
const longestTurnMs = 10_000;
/** Looks in a row that must see the same. */
const looksToBeSure = 3;

export interface WatchedSession {
  readonly connection: PostgresConnection;
  readonly side: PostgresSide;
  readonly client: Client;
  /** Whether the server rightly waits for us, for all that the caller knows: then its waiting means nothing. */
  readonly isOurTurn?: () => boolean;
  /** What counts as movement; left out: bytes in either direction. */
  readonly movement?: "both" | "received";
  readonly firstLookMs?: number;
  /** Looks after sessions that share these wait for one another: each takes a connection. */
  readonly turns?: TakesTurns | undefined;
  /** What else is to be seen at each look, by the session that looks; `pid` is the watched one's process id. */
  readonly beside?: (observer: Client, pid: number) => Promise<void>;
  readonly signal: AbortSignal;
}

/** Runs `action` on the session's client, watched. */
export async function whileWatched<T>(session: WatchedSession, action: () => Promise<T>): Promise<T> {
  using _watch = watchSession(session);
  return await action();
}

/**
 * Until it is disposed of, breaks the session's connection when another one finds its backend gone, finds no server, or
 * finds the backend waiting for us while we wait for it.
 */
export function watchSession(session: WatchedSession): Disposable {
  // A sink that is to have one session has none to look by: TCP tells, in its time.
  if (session.side === "sink" && hasOneSession(session.connection)) return { [Symbol.dispose]() {} };
  let timer: ReturnType<typeof setTimeout>;
  let isOver = false;
  let suspicion: Suspicion | null = null;
  const look = async () => {
    const turn = session.turns?.take();
    await Promise.race([turn, sleep(longestTurnMs, undefined, { ref: false })]);
    const sight = isOver
      ? "there"
      : await lookAt(session, (seen) => {
          suspicion = suspect(suspicion, seen);
          return !isOver && suspicion !== null && suspicion.looks >= looksToBeSure;
        });
    void turn?.then((end) => end());
    if (isOver) return;
    if (sight === "gone") destroyClient(session.client);
    else arm(suspicion === null ? lookEveryMs : lookAgainMs);
  };
  const arm = (ms: number) => {
    timer = setTimeout(() => void look(), ms);
  };
  arm(session.firstLookMs ?? lookEveryMs);
  return {
    [Symbol.dispose]() {
      isOver = true;
      clearTimeout(timer);
    },
  };
}

/** What one look has seen. */
export interface Sight {
  /** `waits`: for its client to read or to write. */
  readonly backend: "waits" | "works";
  /** Changes whenever something has passed, in either direction, or the backend has begun something else. */
  readonly progress: string;
}

export interface Suspicion {
  readonly progress: string;
  readonly looks: number;
}

/** What comes of a look behind the last. Pure. */
export function suspect(before: Suspicion | null, { backend, progress }: Sight): Suspicion | null {
  if (backend !== "waits") return null;
  if (before === null || before.progress !== progress) return { progress, looks: 1 };
  return { progress, looks: before.looks + 1 };
}

/**
 * Whether the session is to be given up: its backend is not there, `isStuck` says so of what is seen, or the server cannot
 * be reached; one that refuses to tell does not count. A backend that is stuck is ended too: it would go on holding its
 * locks, and wait for us for hours.
 */
async function lookAt(
  { connection, side, client, isOurTurn, movement, beside, signal }: WatchedSession,
  isStuck: (sight: Sight) => boolean,
): Promise<"gone" | "there"> {
  const wasOurTurn = isOurTurn?.() ?? false;
  try {
    return await withPostgres(connection, "control", signal, side, async (observer) => {
      const pid = processIdOf(client);
      const { rows } = await observer.query<Look>(lookSql, [pid]);
      const [row] = rows;
      // A pooler gives numbers of its own: nothing can be told by them.
      if (!row || row.own !== processIdOf(observer)) return "there";
      if (row.since === null) return "gone";
      await beside?.(observer, pid);
      const { bytesRead, bytesWritten } = socketOf(client);
      const waits = row.waits && !wasOurTurn && !(isOurTurn?.() ?? false);
      const progress = `${row.since} ${bytesRead} ${movement === "received" ? "" : bytesWritten}`;
      if (!isStuck({ backend: waits ? "waits" : "works", progress })) return "there";
      const end = `select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and ${since} = $2`;
      await observer.query(end, [pid, row.since]);
      return "gone";
    });
  } catch (error) {
    return sqlStateOf(error) === null ? "gone" : "there";
  }
}

/** The same as long as a backend has not begun or ended anything. */
const since = "row(backend_start, state_change, query_start)::text";
/** A backend waits for its client; a walsender that has nothing to send does so under a name of its own. */
const lookSql = `
select pg_backend_pid() as own, case when pid is not null then ${since} end as since,
  coalesce(wait_event_type = 'Client' or wait_event = 'WalSenderMain', false) as waits
from (select 1) one left join pg_stat_activity on pid = $1`;

interface Look {
  readonly own: number;
  /** Null: there is no such backend. */
  readonly since: string | null;
  readonly waits: boolean;
}
