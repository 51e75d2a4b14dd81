// TRUNCATE at the sink, of the tables that the source named and of no others.

import { type Client, DatabaseError } from "pg";
import type { PreparedTable } from "./prepared-table.ts";

/** feature_not_supported: a table that was not named refers to one of these. */
const referenced = "0A000";

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
    if (!(error instanceof DatabaseError) || error.code !== referenced) throw error;
    await client.query("rollback to savepoint before_truncate");
    for (const name of names) await client.query(`delete from ${name}`);
  }
  await client.query("release savepoint before_truncate");
}
