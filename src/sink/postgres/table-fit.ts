// Changes a table at the sink so that it takes a relation's rows, as far as the connector's migration strategy allows.

import type { Client } from "pg";
import type { Relation } from "../../change/relation.ts";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";
import { migrationRefused, migrationSql } from "./migration-sql.ts";
import { type FollowedColumn, planMigration, refusedChanges } from "./table-migration.ts";
import type { TargetTable } from "./target-table.ts";

/**
 * In the open transaction. `known`: the columns as the table followed them last; null when nothing is known. Returns whether
 * anything was changed. Throws `sink_schema_mismatch` with the SQL to run when the strategy does not allow the changes.
 */
export async function fitTable(
  client: Client,
  strategy: PostgresSinkConfig["migration_strategy"],
  table: TargetTable,
  known: readonly FollowedColumn[] | null,
  relation: Relation,
): Promise<boolean> {
  const changes = planMigration(table, known, relation, strategy);
  const refused = refusedChanges(strategy, changes);
  if (refused.length > 0) {
    throw migrationRefused(table.target, await migrationSql(client, table.target, refused));
  }
  for (const sql of await migrationSql(client, table.target, changes)) await client.query(sql);
  return changes.length > 0;
}
