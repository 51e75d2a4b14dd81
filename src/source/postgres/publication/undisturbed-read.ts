// Runs queries for which the server opens every table of a publication. Such a query fails as a whole when one of the
// tables is dropped meanwhile, and waits for one that is locked.

import type { Client } from "pg";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { readLockHolder } from "../checks/lock-holder.ts";

/** Where tables are dropped all the time, one read in a few is disturbed. */
const maxReads = 10;
/** The stream may be standing still meanwhile. */
const lockTimeoutMs = 500;

/**
 * Repeats `read`, each time in a transaction of its own, until no table is dropped during it. Throws `table_changed`
 * when that never succeeds, `table_unreadable` with the table and the blocking process when a table is locked, and
 * otherwise what `read` throws.
 * https://www.postgresql.org/docs/current/view-pg-publication-tables.html
 */
export async function readUndisturbed<T>(client: Client, read: () => Promise<T>): Promise<T> {
  for (let reads = 1; ; reads++) {
    try {
      await client.query(`begin read only; set local lock_timeout = ${lockTimeoutMs}`);
      const result = await read();
      await client.query("commit");
      return result;
    } catch (error) {
      if (sqlStateOf(error) === null) throw error;
      await client.query("rollback");
      if (sqlStateOf(error) === sqlState.lockNotAvailable) throw await lockedTable(client, error);
      if (!isTableGone(error)) throw error;
      if (reads < maxReads) continue;
      throw new MillraceError(
        "table_changed",
        "Tables were dropped again and again while they were being read.",
        {
          cause: error,
        },
      );
    }
  }
}

/** The error has no SQLSTATE of its own. */
function isTableGone(error: unknown): boolean {
  return (
    sqlStateOf(error) === sqlState.internalError &&
    /^(could not open relation with OID|cache lookup failed for relation)/.test((error as Error).message)
  );
}

async function lockedTable(client: Client, cause: unknown): Promise<MillraceError> {
  const holder = await readLockHolder(client, ["AccessExclusiveLock"], null);
  if (!holder) {
    const text = "A table was locked while the publication was being read.";
    return new MillraceError("table_unreadable", text, { cause });
  }
  const { table, who, terminateSql } = holder;
  return new MillraceError(
    "table_unreadable",
    `Table ${table} is locked, so that the publication cannot be read: ${who}. It is tried again by itself; ` +
      `to end the wait: ${terminateSql}`,
    { cause },
  );
}
