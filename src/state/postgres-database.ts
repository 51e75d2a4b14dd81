// The state in the Postgres of DATABASE_URL.

import { drizzle } from "drizzle-orm/postgres-js";
import postgres from "postgres";
import { MillraceError } from "../errors/millrace-error.ts";
import type { OpenDatabase } from "./database.ts";
import { migrate } from "./migrations.ts";
import * as schema from "./schema.ts";
import { holdServiceLock } from "./service-lock.ts";

/** Takes the service's lock, brings the tables up to date, and connects. Throws `state_unavailable` or `invalid_setting`. */
export async function openPostgresDatabase(url: string): Promise<OpenDatabase> {
  const lock = await reachable(() => holdServiceLock(url));
  // This client is Drizzle's alone: Drizzle rewrites its parsers.
  const client = postgres(url, {
    max: 4,
    connect_timeout: 10,
    onnotice: () => {},
    connection: { application_name: "millrace state" },
  });
  const dispose = async () => {
    await client.end({ timeout: 5 });
    await lock[Symbol.asyncDispose]();
  };
  try {
    const database = drizzle(client, { schema });
    await reachable(() => migrate(database));
    return { database, lost: lock.lost, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
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
