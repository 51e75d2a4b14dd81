// Notices that a session's peer is gone while a statement runs. A server may die silently, and a network may drop
// packets or forget the connection. The statement would then hang until TCP gives up: a quarter of an hour later, or
// never.

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import type { Permits } from "../concurrency/semaphore.ts";
import type { PostgresConnection } from "../connector/config/connection.ts";
import type { PostgresSide } from "./connection-failure.ts";
import { hasOneSession } from "./has-one-session.ts";
import { destroyClient, processIdOf, socketOf, withPostgres } from "./postgres-client.ts";
import { sqlStateOf } from "./postgres-failure.ts";

const checkEveryMs = 5_000;
/** After a check that raised a suspicion. */
const recheckMs = 2_000;
/** A check that hangs, because its own connection is dead, must not stop the others. */
const maxPermitWaitMs = 10_000;
/** A network that falls silent amid a check must not leave it hanging: no other would follow. */
const maxAnswerMs = 10_000;
/** So many checks in a row must see the same. */
const checksToBeSure = 3;
/** DNS, an SSH server, or this process may fail to make new connections for a moment while those that are there work. */
const maxUnreachedMs = 10_000;

export interface WatchedSession {
  readonly connection: PostgresConnection;
  readonly side: PostgresSide;
  readonly client: Client;
  /** Whether the server rightly waits for us, as far as the caller knows. Then its waiting means nothing. */
  readonly isClientBusy?: () => boolean;
  /** What counts as progress: bytes in both directions (the default), or received bytes alone. */
  readonly movement?: "both" | "received";
  readonly firstCheckMs?: number;
  /** Sessions that share a semaphore are checked one by one: each check takes a connection. */
  readonly permits?: Permits | undefined;
  /** Runs at each check, in the checking session. `pid` is the watched session's process id. */
  readonly onCheck?: (observer: Client, pid: number) => Promise<void>;
  /** Called whenever a check finds the backend at work, under the name that the session was opened with, and not waiting for us. */
  readonly onWorking?: () => void;
  readonly signal: AbortSignal;
}

/** Runs `action` on the session's client, watched. */
export async function whileWatched<T>(session: WatchedSession, action: () => Promise<T>): Promise<T> {
  using _watch = watchSession(session);
  return await action();
}

/**
 * Checks the session from another one until the watch is disposed of. Breaks the session's connection when its backend
 * is gone, when several checks in a row do not reach the server, or when the backend waits for us while we wait for it.
 */
export function watchSession(session: WatchedSession): Disposable {
  // A sink with `max_pool_size` 1 leaves no session for the check: TCP has to notice.
  if (session.side === "sink" && hasOneSession(session.connection)) return { [Symbol.dispose]() {} };
  let timer: ReturnType<typeof setTimeout>;
  let isOver = false;
  let suspicion: Suspicion | null = null;
  let unreachedSince: number | null = null;
  const check = async () => {
    const permit = session.permits?.acquire();
    await Promise.race([permit, sleep(maxPermitWaitMs, undefined, { ref: false })]);
    const sample = isOver
      ? "there"
      : await checkSession(session, (seen) => {
          suspicion = suspect(suspicion, seen);
          return !isOver && suspicion !== null && suspicion.checks >= checksToBeSure;
        });
    void permit?.then((release) => release());
    if (isOver) return;
    const now = performance.now();
    unreachedSince = sample === "unreached" ? (unreachedSince ?? now) : null;
    const isUnreachable = unreachedSince !== null && now - unreachedSince >= maxUnreachedMs;
    if (sample === "gone" || isUnreachable) destroyClient(session.client);
    else arm(suspicion === null && unreachedSince === null ? checkEveryMs : recheckMs);
  };
  const arm = (ms: number) => {
    timer = setTimeout(() => void check(), ms);
  };
  arm(session.firstCheckMs ?? checkEveryMs);
  return {
    [Symbol.dispose]() {
      isOver = true;
      clearTimeout(timer);
    },
  };
}

/** What one check has seen. */
export interface SessionSample {
  /** `waits`: for its client to read or to write. */
  readonly backend: "waits" | "works";
  /** Changes whenever bytes have passed in either direction, or the backend has begun another statement. */
  readonly progress: string;
}

export interface Suspicion {
  readonly progress: string;
  readonly checks: number;
}

/** The suspicion after another sample. Pure. */
export function suspect(before: Suspicion | null, { backend, progress }: SessionSample): Suspicion | null {
  if (backend !== "waits") return null;
  if (before === null || before.progress !== progress) return { progress, checks: 1 };
  return { progress, checks: before.checks + 1 };
}

/**
 * `gone`: the session must be given up, as its backend is gone, or `isStuck` says so. A server that refuses the check
 * counts as there. A stuck backend is terminated: it would keep its locks and wait for us for hours.
 */
async function checkSession(
  { connection, side, client, isClientBusy, movement, onCheck, onWorking, signal }: WatchedSession,
  isStuck: (sample: SessionSample) => boolean,
): Promise<"gone" | "there" | "unreached"> {
  const wasClientBusy = isClientBusy?.() ?? false;
  try {
    return await withPostgres(connection, "control", signal, side, async (observer) => {
      using _bound = breakAfter(observer, maxAnswerMs);
      const pid = processIdOf(client);
      const { rows } = await observer.query<BackendRow>(backendQuery, [pid]);
      const [row] = rows;
      // A connection pooler hands out process ids of its own, which identify no backend.
      if (!row || row.own !== processIdOf(observer)) return "there";
      if (row.since === null) return "gone";
      if (!row.waits && row.name === nameOf(client)) onWorking?.();
      await onCheck?.(observer, pid);
      const { bytesRead, bytesWritten } = socketOf(client);
      const waits = row.waits && !wasClientBusy && !(isClientBusy?.() ?? false);
      const progress = `${row.since} ${bytesRead} ${movement === "received" ? "" : bytesWritten}`;
      if (!isStuck({ backend: waits ? "waits" : "works", progress })) return "there";
      const end = `select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and ${since} = $2`;
      await observer.query(end, [pid, row.since]);
      return "gone";
    });
  } catch (error) {
    return sqlStateOf(error) === null ? "unreached" : "there";
  }
}

/** Breaks the connection, unless disposed of before. */
function breakAfter(client: Client, ms: number): Disposable {
  const timer = setTimeout(() => destroyClient(client), ms);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}

/** Stays the same until the backend begins or ends a statement. */
const since = "row(backend_start, state_change, query_start)::text";
/** A backend waits for its client; a walsender with nothing to send has a wait event of its own. */
const backendQuery = `
select pg_backend_pid() as own, case when pid is not null then ${since} end as since,
  coalesce(wait_event_type = 'Client' or wait_event = 'WalSenderMain', false) as waits, application_name as name
from (select 1) one left join pg_stat_activity on pid = $1`;

interface BackendRow {
  readonly own: number;
  /** Null: there is no such backend. */
  readonly since: string | null;
  readonly waits: boolean;
  readonly name: string | null;
}

/** Behind the same address there may be another server by now, with a backend of the same process id. */
function nameOf(client: Client): string | undefined {
  // library edge: what the session was opened with is not in the types.
  const { connectionParameters: opened } = client as unknown as {
    readonly connectionParameters?: { readonly application_name?: string };
  };
  return opened?.application_name;
}
