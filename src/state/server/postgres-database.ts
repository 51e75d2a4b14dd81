// Opens the state in the Postgres of DATABASE_URL.

import { drizzle } from "drizzle-orm/postgres-js";
import type { Sql } from "postgres";
import { MillraceError } from "../../errors/millrace-error.ts";
import { type Database, hasKeptPlan, type OpenDatabase } from "../database.ts";
import { migrate } from "../migrations.ts";
import * as schema from "../schema.ts";
import { acquireMigrationLock } from "./migration-lock.ts";
import { ServerNotices, sessionName } from "./server-notices.ts";
import { stateConnection } from "./state-connection.ts";
import { type StateConnection, StateSession } from "./state-session.ts";
import { StateSessions } from "./state-sessions.ts";

/** After this the network may have forgotten the connection. */
const defaultAnswerMs = 60_000;
const maxSessions = 4;
const migrationMs = 60 * 60_000;
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
}

/** Migrates the tables, and connects. Throws `state_unavailable` or `invalid_setting`. */
export async function openPostgresDatabase(
  url: string,
  { instance, answerMs = defaultAnswerMs, leaseAnswerMs = answerMs, lockMs = defaultLockMs }: PostgresOptions,
): Promise<OpenDatabase> {
  await using opening = new AsyncDisposableStack();
  const connection = await reachable(() => stateConnection(url));
  await reachable(() => migrateTables(connection, lockMs));
  const name = sessionName(instance);
  const sessions = opening.use(new StateSessions(connection, name, answerMs, maxSessions));
  const leaseSessions = opening.use(new StateSessions(connection, name, leaseAnswerMs, 1));
  const owned = opening.move();
  const lost = new AbortController();
  return {
    ...{ database: databaseOver(sessions), lost: lost.signal },
    shared: {
      forLeases: databaseOver(leaseSessions),
      listen: () => reachable(() => ServerNotices.open(connection, instance)),
      lose: (reason) => lost.abort(reason),
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Migrations may take long. Replicas that start together migrate one after the other, and the first one does it all. */
async function migrateTables(connection: StateConnection, lockMs: number): Promise<void> {
  const options = { name: "millrace state migration", answerMs: migrationMs };
  await using session = await StateSession.open(connection, options);
  await session.run((sql) => acquireMigrationLock(sql, options.name, lockMs));
  await session.run((sql) => migrate(drizzle(sql, { schema })));
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
