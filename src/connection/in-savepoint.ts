// Tries a piece of work that the rest of a transaction does not depend on.

import type { Client } from "pg";
import { sqlStateOf } from "./postgres-failure.ts";

/**
 * In the open transaction: does the work in a savepoint. Where it fails, what it did is undone, the transaction goes on, and its error is thrown.
 * https://www.postgresql.org/docs/current/sql-savepoint.html
 */
export async function inSavepoint<T>(client: Client, work: () => Promise<T>): Promise<T> {
  await client.query("savepoint millrace");
  try {
    const result = await work();
    await client.query("release savepoint millrace");
    return result;
  } catch (error) {
    // Where the connection is broken, this fails as well. The work's own error says more.
    await client.query("rollback to savepoint millrace; release savepoint millrace").catch(() => {});
    throw error;
  }
}

/** As `inSavepoint`. Returns whether the work was done: false where it failed with this SQLSTATE. Throws any other error. */
export async function succeeds(
  client: Client,
  unlessState: string,
  work: () => Promise<unknown>,
): Promise<boolean> {
  return await inSavepoint(client, work).then(
    () => true,
    (error: unknown) => {
      if (sqlStateOf(error) !== unlessState) throw error;
      return false;
    },
  );
}
