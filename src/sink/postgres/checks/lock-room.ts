// How many tables a transaction may change at the sink. The locks of all sessions share a table of fixed size.
// https://www.postgresql.org/docs/current/runtime-config-locks.html#GUC-MAX-LOCKS-PER-TRANSACTION

import type { Client } from "pg";

/** A table and its index; a staging table with its TOAST table and that one's index; and two types, when the staging table is dropped. */
const locksPerTable = 7;

/** The server has room for nearly twice as many: the rest is for further indexes and for other sessions. */
export async function maxTablesAtOnce(client: Client): Promise<number> {
  const { rows } = await client.query<{ locks: number }>(
    `select current_setting('max_locks_per_transaction')::float8 * current_setting('max_connections')::float8 as locks`,
  );
  return Math.max(1, Math.floor(rows[0]!.locks / locksPerTable));
}
