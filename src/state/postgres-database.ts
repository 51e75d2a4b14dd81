// The state in the Postgres of DATABASE_URL.

import { drizzle } from "drizzle-orm/node-postgres";
import { type ClientConfig, Pool, type PoolClient } from "pg";
import { MillraceError } from "../errors/millrace-error.ts";
import type { Database, OpenDatabase } from "./database.ts";
import { migrate } from "./migrations.ts";
import * as schema from "./schema.ts";
import { holdServiceLock } from "./service-lock.ts";
import { stateConnection } from "./state-connection.ts";

const mostSessions = 4;
/** The network may have forgotten the connection that a question went by. */
const defaultAnswerMs = 60_000;
const restMs = 60_000;
const goodbyeMs = 5_000;

/**
 * Takes the service's lock, brings the tables up to date, and connects. A question that is not answered within `answerMs` fails. Throws
 * `state_unavailable` or `invalid_setting`.
 */
export async function openPostgresDatabase(url: string, answerMs = defaultAnswerMs): Promise<OpenDatabase> {
  const connection = await reachable(() => stateConnection(url));
  const lock = await reachable(() => holdServiceLock(connection));
  const pool = openPool(connection, answerMs);
  const dispose = async () => {
    await Promise.race([pool.end(), Bun.sleep(goodbyeMs)]);
    await lock[Symbol.asyncDispose]();
  };
  try {
    await reachable(() => withSession(pool, (client) => migrate(drizzle(client, { schema }))));
    return { database: databaseOver(pool), lost: lock.lost, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

function openPool(connection: ClientConfig, answerMs: number): Pool {
  const pool = new Pool({
    ...connection,
    max: mostSessions,
    idleTimeoutMillis: restMs,
    query_timeout: answerMs,
    application_name: "millrace state",
  });
  // A session that ends while nobody asks it is nobody's failure; one that does amid a transaction fails its next statement.
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  return pool;
}

/** As Drizzle has it over a pool, but that a session whose BEGIN fails is given back. */
function databaseOver(pool: Pool): Database {
  const database = drizzle(pool, { schema });
  database.transaction = (work, config) =>
    withSession(pool, (client) => drizzle(client, { schema }).transaction(work, config));
  return database;
}

/** One that still owes an answer is not to let others wait for that. */
async function withSession<Result>(
  pool: Pool,
  work: (client: PoolClient) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect();
  try {
    return await work(client);
  } finally {
    client.release(!isIdle(client));
  }
}

// library edge: pg knows whether the server waits for a query, and does not type it.
function isIdle(client: PoolClient): boolean {
  return (client as unknown as { readyForQuery: boolean }).readyForQuery;
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
