// Questions that the server answers by opening every table of a publication: they fail as a whole when one of them is dropped
// meanwhile, and wait for one that is locked.

import type { Client } from "pg";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { readLockHolder } from "../checks/lock-holder.ts";

/** Where tables are dropped all the time, one look in a few meets it. */
const maxLooks = 10;
/** The stream may stand meanwhile. */
const lockTimeoutMs = 500;

/**
 * What `look` gives once no table is dropped under it. It is called in a transaction of its own, again and again. Throws
 * `table_changed` when it is disturbed each time, `table_unreadable` with the table and who holds it when one is locked, and what
 * `look` throws otherwise.
 * https://www.postgresql.org/docs/current/view-pg-publication-tables.html
 */
export async function lookUndisturbed<T>(client: Client, look: () => Promise<T>): Promise<T> {
  for (let looks = 1; ; looks++) {
    try {
      await client.query(`begin read only; set local lock_timeout = ${lockTimeoutMs}`);
      const seen = await look();
      await client.query("commit");
      return seen;
    } catch (error) {
      if (sqlStateOf(error) === null) throw error;
      await client.query("rollback");
      if (sqlStateOf(error) === sqlState.lockNotAvailable) throw await lockedTable(client, error);
      if (!isTableGone(error)) throw error;
      if (looks < maxLooks) continue;
      throw new MillraceError(
        "table_changed",
        "Tables were dropped again and again while they were looked at.",
        {
          cause: error,
        },
      );
    }
  }
}

/** It has no SQLSTATE of its own. */
function isTableGone(error: unknown): boolean {
  return (
    sqlStateOf(error) === sqlState.internalError &&
    /^(could not open relation with OID|cache lookup failed for relation)/.test((error as Error).message)
  );
}

async function lockedTable(client: Client, cause: unknown): Promise<MillraceError> {
  const holder = await readLockHolder(client, ["AccessExclusiveLock"], null);
  if (!holder) {
    const text = "A table was locked while the publication was looked at.";
    return new MillraceError("table_unreadable", text, { cause });
  }
  const { table, who, end } = holder;
  return new MillraceError(
    "table_unreadable",
    `Table ${table} is locked, so that the publication cannot be looked at: ${who}. It is looked at again by itself; ` +
      `to end the wait: ${end}`,
    { cause },
  );
}
