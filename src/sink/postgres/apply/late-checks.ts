// Unique and exclusion constraints that can be deferred are checked by a trigger of the server's own, which a session that has
// switched triggers off does not set off either: what breaks them would be there unseen.
// https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-SESSION-REPLICATION-ROLE

import type { Client } from "pg";
import type { TargetTable } from "../schema/target-table.ts";

/** What is written to the table in `action`, in the open transaction, is checked as the constraints say. */
export async function withLateChecks<T>(
  client: Client,
  { hasLateChecks }: Pick<TargetTable, "hasLateChecks">,
  action: () => Promise<T>,
): Promise<T> {
  if (!hasLateChecks) return await action();
  await client.query("set local session_replication_role = origin");
  const result = await action();
  // Where the action fails, the setting is undone with it.
  await client.query("set local session_replication_role = replica");
  return result;
}
