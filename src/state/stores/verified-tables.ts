// When each table was last compared with its source as a whole, and what was found. It is stored with the end of the task that has compared it.

import { asc, eq } from "drizzle-orm";
import { type Task, verifyResultOf } from "../../connector/task.ts";
import type { VerifiedTable } from "../../connector/verification.ts";
import { type Database, stored } from "../database.ts";
import { verifiedTables } from "../schema.ts";

/** In the transaction that stores the task as done. A sample of the rows proves nothing of the others. */
export async function recordVerified(
  database: Database,
  connectorId: string,
  task: Task,
  at: Date,
): Promise<void> {
  const { Verify: spec } = task.spec;
  const result = verifyResultOf(task);
  if (!spec || !result || spec.sample_percent !== undefined) return;
  const { schema, name } = spec;
  const { as_of_lsn: asOfLsn, rows, missing, extra, changed, repaired } = result;
  const found = { at, asOfLsn, rows, differing: missing + extra + changed - repaired };
  await database
    .insert(verifiedTables)
    .values({ connectorId, schema, name, ...found })
    .onConflictDoUpdate({
      target: [verifiedTables.connectorId, verifiedTables.schema, verifiedTables.name],
      set: found,
    });
}

/** The connector begins again: what was found is of other rows, as of a log that it may read no more. */
export async function forgetVerified(database: Database, connectorId: string): Promise<void> {
  await database.delete(verifiedTables).where(eq(verifiedTables.connectorId, connectorId)).execute();
}

/** By schema and name. */
export async function listVerified(database: Database, connectorId: string): Promise<VerifiedTable[]> {
  const rows = await stored(
    database
      .select()
      .from(verifiedTables)
      .where(eq(verifiedTables.connectorId, connectorId))
      .orderBy(asc(verifiedTables.schema), asc(verifiedTables.name))
      .execute(),
  );
  return rows.map(({ schema, name, at, asOfLsn, rows: count, differing }) => {
    return { schema, name, verified: { at: at.toISOString(), as_of_lsn: asOfLsn, rows: count, differing } };
  });
}
