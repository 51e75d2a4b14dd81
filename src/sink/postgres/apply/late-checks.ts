// Deferrable unique and exclusion constraints are checked by an internal trigger. A session with session_replication_role = replica does not
// fire it: rows that violate such a constraint would go unnoticed.
// https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-SESSION-REPLICATION-ROLE

import type { Client } from "pg";
import type { TargetTable } from "../schema/target-table.ts";

/** In the open transaction: what `action` writes to the table is checked by such constraints. */
export async function withLateChecks<T>(
  client: Client,
  { hasLateChecks }: Pick<TargetTable, "hasLateChecks">,
  action: () => Promise<T>,
): Promise<T> {
  if (!hasLateChecks) return await action();
  await client.query("set local session_replication_role = origin");
  const result = await action();
  // If the action fails, the rollback resets the setting.
  await client.query("set local session_replication_role = replica");
  return result;
}
