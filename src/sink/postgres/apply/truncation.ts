// TRUNCATE at the sink, of the tables that the source named and of no others.

import type { Client } from "pg";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import type { PreparedTable } from "./prepared-table.ts";

/**
 * Never with CASCADE: at the source it reached tables that are named as well, and at the sink it would reach others. Where a
 * foreign key of such a table stands in the way, the rows are deleted.
 */
export async function truncateTables(
  client: Client,
  tables: readonly PreparedTable[],
  restartIdentity: boolean,
): Promise<void> {
  const names = tables.map((table) => table.ownRows);
  await client.query("savepoint before_truncate");
  try {
    await client.query(`truncate ${names.join(", ")}${restartIdentity ? " restart identity" : ""}`);
  } catch (error) {
    // A table that was not named refers to one of these.
    if (sqlStateOf(error) !== sqlState.featureNotSupported) throw error;
    await client.query("rollback to savepoint before_truncate");
    for (const name of names) await client.query(`delete from ${name}`);
  }
  await client.query("release savepoint before_truncate");
}
