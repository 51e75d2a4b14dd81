// Migrates the tables of a state database while replicas of the version before work on it.

import { drizzle } from "drizzle-orm/postgres-js";
import type { Sql } from "postgres";
import { describeFailure, sqlState } from "../database.ts";
import { migrate, migrations } from "../migrations.ts";
import * as schema from "../schema.ts";
import { acquireMigrationLock } from "./migration-lock.ts";
import { type StateConnection, StateSession } from "./state-session.ts";

const name = "millrace state migration";
const migrationMs = 60 * 60_000;
/** Whoever uses a table waits behind a migration that waits for it. That must not take as long as a lease. */
const lockTimeout = "1s";
/** Meanwhile those who waited go on. */
const againMs = 2_000;
/** A lock was not to be had in time, or only by a deadlock. */
const lockFailures: ReadonlySet<string | null> = new Set(["55P03", "40P01"]);

export interface MigrationWait {
  /** How long to wait for another one that migrates. */
  readonly lockMs: number;
  /** Called when somebody else's lock is in the way, with who it is. */
  readonly report: (error: Error) => void;
}

/**
 * Migrations may take long. Replicas that start together migrate one after the other, and the first one does it all. A transaction
 * that reads a table for long, such as that of a backup, is waited for: each attempt is made whole, and gives way soon.
 */
export async function migrateTables(
  connection: StateConnection,
  { lockMs, report }: MigrationWait,
  known = migrations(),
): Promise<void> {
  await using session = await StateSession.open(connection, { name, answerMs: migrationMs });
  await session.run((sql) => acquireMigrationLock(sql, name, lockMs));
  await session.run((sql) => sql.unsafe(`set lock_timeout = '${lockTimeout}'`));
  const untilMs = performance.now() + migrationMs;
  for (let reported = ""; ; await Bun.sleep(againMs)) {
    try {
      return await session.run((sql) => migrate(drizzle(sql, { schema }), known));
    } catch (error) {
      if (!lockFailures.has(sqlState(error))) throw error;
      const text = `A migration of the state's tables waits for ${await session.run(longestUser)}: ${describeFailure(error)}.`;
      const waiting = new Error(text);
      if (performance.now() >= untilMs) throw waiting;
      if (text !== reported) report(waiting);
      reported = text;
    }
  }
}

/** The session whose transaction uses tables of the state since longest. */
async function longestUser(sql: Sql): Promise<string> {
  const [user] = await sql<{ pid: number; name: string; address: string; table: string }[]>`
    select a.pid, coalesce(a.application_name, '') as name, coalesce(host(a.client_addr), 'a local socket') as address,
      c.relname as table
    from pg_locks l
    join pg_stat_activity a on a.pid = l.pid
    join pg_class c on c.oid = l.relation
    join pg_namespace n on n.oid = c.relnamespace
    where l.database = (select oid from pg_database where datname = current_database())
      and l.locktype = 'relation' and l.granted and l.pid <> pg_backend_pid() and n.nspname = 'millrace'
    order by a.xact_start nulls last, c.relname
    limit 1`;
  if (!user) return "a lock of another transaction";
  return `pid ${user.pid} (${user.name}, from ${user.address}), whose transaction uses millrace.${user.table}`;
}
