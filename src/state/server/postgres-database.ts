// Opens the state in the Postgres of DATABASE_URL.

import { drizzle } from "drizzle-orm/postgres-js";
import type { Sql } from "postgres";
import { MillraceError } from "../../errors/millrace-error.ts";
import { type Database, hasKeptPlan, type OpenDatabase } from "../database.ts";
import * as schema from "../schema.ts";
import { migrateTables } from "./migrate-tables.ts";
import { refusePooler } from "./refuse-pooler.ts";
import { ServerNotices, sessionName } from "./server-notices.ts";
import { stateConnection } from "./state-connection.ts";
import { StateSessions } from "./state-sessions.ts";

/** After this the network may have forgotten the connection. */
const defaultAnswerMs = 60_000;
const maxSessions = 4;
/** How long a start waits for another one that migrates, or for a service from before leases that is shutting down. */
const defaultLockMs = 5_000;

export interface PostgresOptions {
  /** UUID of this life of the process. */
  readonly instance: string;
  /** An operation that is not answered in time fails. */
  readonly answerMs?: number;
  /** The same for what is said of leases: one that is silent must not outlast them. */
  readonly leaseAnswerMs?: number;
  /** How long to wait for another one that migrates. */
  readonly lockMs?: number;
  /** Called when a migration waits for somebody else's lock. */
  readonly reportMaintenance?: (error: unknown) => void;
}

/** Migrates the tables, and connects. Throws `state_unavailable` or `invalid_setting`. */
export async function openPostgresDatabase(url: string, options: PostgresOptions): Promise<OpenDatabase> {
  const { instance, answerMs = defaultAnswerMs, leaseAnswerMs = answerMs } = options;
  const { lockMs = defaultLockMs, reportMaintenance: report = () => {} } = options;
  await using opening = new AsyncDisposableStack();
  const connection = await reachable(() => stateConnection(url));
  await reachable(() => refusePooler(connection));
  await reachable(() => migrateTables(connection, { lockMs, report }));
  const name = sessionName(instance);
  const sessions = opening.use(new StateSessions(connection, name, answerMs, maxSessions));
  const leaseSessions = opening.use(new StateSessions(connection, name, leaseAnswerMs, 1));
  const owned = opening.move();
  const lost = new AbortController();
  return {
    database: databaseOver(sessions),
    lost: lost.signal,
    shared: {
      forLeases: databaseOver(leaseSessions),
      listen: (reopened) => reachable(() => ServerNotices.open(connection, instance, reopened)),
      lose: (reason) => lost.abort(reason),
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Runs each statement and each transaction in a session of the pool. */
function databaseOver(sessions: StateSessions): Database {
  const within = <Result>(operation: (sql: Sql) => Promise<Result>) =>
    sessions.within((sql) => {
      // Drizzle parses dates and JSON itself. It configures the driver for that when it gets a client.
      drizzle(sql);
      return operation(sql);
    });
  const client = {
    options: { parsers: {}, serializers: {} },
    unsafe: (text: string, parameters?: Parameters<Sql["unsafe"]>[1]) => ({
      // biome-ignore lint/suspicious/noThenProperty: like the driver's own, a statement is sent when it is awaited.
      then: (...settle: Parameters<Promise<unknown>["then"]>) =>
        within(async (sql) => await sql.unsafe(text, parameters, { prepare: hasKeptPlan(text) })).then(
          ...settle,
        ),
      values: () => within(async (sql) => await sql.unsafe(text, parameters).values()),
    }),
    begin: (work: Parameters<Sql["begin"]>[1]) => within((sql) => sql.begin(work)),
  };
  // library edge: Drizzle uses nothing else of a client.
  return drizzle(client as unknown as Sql, { schema });
}

async function reachable<Result>(operation: () => Promise<Result>): Promise<Result> {
  try {
    return await operation();
  } catch (error) {
    if (error instanceof MillraceError) throw error;
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new MillraceError(
      "state_unavailable",
      `The state database of DATABASE_URL cannot be used: ${text}`,
    );
  }
}
