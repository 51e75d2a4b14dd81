// The state in the Postgres of DATABASE_URL.

import { drizzle } from "drizzle-orm/node-postgres";
import type { Client, ClientConfig } from "pg";
import { MillraceError } from "../errors/millrace-error.ts";
import type { Database, OpenDatabase } from "./database.ts";
import { migrate } from "./migrations.ts";
import * as schema from "./schema.ts";
import { holdServiceLock } from "./service-lock.ts";
import { connectToState, leaveState, stateConnection } from "./state-connection.ts";
import { type StateClient, StateSessions } from "./state-sessions.ts";

/** The network may have forgotten the connection that a question went by. */
const defaultAnswerMs = 60_000;

/**
 * Takes the service's lock, brings the tables up to date, and connects. A question that is not answered within `answerMs` fails. Throws
 * `state_unavailable` or `invalid_setting`.
 */
export async function openPostgresDatabase(url: string, answerMs = defaultAnswerMs): Promise<OpenDatabase> {
  await using opening = new AsyncDisposableStack();
  const connection = await reachable(() => stateConnection(url));
  const { lost } = opening.use(await reachable(() => holdServiceLock(connection)));
  await reachable(() => bringUpToDate(connection));
  const sessions = opening.use(new StateSessions(connection, answerMs));
  const owned = opening.move();
  return { database: databaseOver(sessions), lost, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Takes as long as it takes. */
async function bringUpToDate(connection: ClientConfig): Promise<void> {
  const client = await connectToState({ ...connection, application_name: "millrace state migration" });
  try {
    await migrate(drizzle(client, { schema }));
  } finally {
    await leaveState(client);
  }
}

/** Each statement, and each transaction, in a session. */
function databaseOver(sessions: StateSessions): Database {
  const query = (...question: Parameters<Client["query"]>) =>
    sessions.within(async (client) => await client.query(...question));
  const database = drizzle(asClient({ query: query as unknown as StateClient["query"] }), { schema });
  database.transaction = (work, config) =>
    sessions.within((client) => drizzle(asClient(client), { schema }).transaction(work, config));
  return database;
}

// library edge: Drizzle asks a client for nothing else.
const asClient = (client: StateClient): Client => client as unknown as Client;

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
