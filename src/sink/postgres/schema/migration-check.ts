// Tells, without changing anything, whether a table at the sink has to change in a way that the connector may not change it.

import type { Client } from "pg";
import type { Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { ShapeRecord } from "../bookkeeping/shape-ledger.ts";
import { findDependents } from "./column-dependents.ts";
import type { MigrationRefused } from "./migration-refused.ts";
import { migrationRefused, migrationSql, nullRefused } from "./migration-sql.ts";
import { changesOfShared } from "./shared-migration.ts";
import { fitsByName, isAllowed, planMigration, refusedChanges } from "./table-migration.ts";
import { renameRefused } from "./table-rename.ts";
import { nameTaken } from "./taken-name.ts";
import type { TargetNaming } from "./target-naming.ts";
import { readTargetTables, type TargetTable } from "./target-table.ts";

export interface CheckedTable {
  readonly relation: Relation;
  /** What the table at the sink has followed so far. */
  readonly known: ShapeRecord | null;
  /** Another table of ours has the relation's name at the sink still, and is to go aside for it. */
  readonly isNameTaken: boolean;
  /** All the rows that are there go with its next copy. */
  readonly isReplaced: boolean;
  /** One of its columns that has to take null. */
  readonly nullColumn: string | null;
}

/** Why each of the tables cannot take its relation's rows; null: it can, or is not there. */
export async function checkMigrations(
  client: Client,
  strategy: PostgresSinkConfig["migration_strategy"],
  naming: TargetNaming,
  tables: readonly CheckedTable[],
): Promise<readonly (MigrationRefused | null)[]> {
  const named = await readTargetTables(
    client,
    tables.map(({ relation }) => naming.target(relation)),
  );
  // Under the name that it had before.
  const before = await readTargetTables(
    client,
    tables.map(({ relation, known }) => naming.target(known ?? relation)),
  );
  const refusals: (MigrationRefused | null)[] = [];
  for (const [i, table] of tables.entries()) {
    const target = (table.known && before[i]) ?? (table.isNameTaken ? null : named[i]) ?? null;
    refusals.push(
      target === null
        ? await nameTaken(client, naming.target(table.relation))
        : await checkMigration(client, strategy, naming, table, target),
    );
  }
  return refusals;
}

async function checkMigration(
  client: Client,
  strategy: PostgresSinkConfig["migration_strategy"],
  naming: TargetNaming,
  { relation, known, nullColumn, isReplaced }: CheckedTable,
  table: TargetTable,
): Promise<MigrationRefused | null> {
  const { target } = table;
  const wanted = naming.target(relation);
  if (sqlName(target) !== sqlName(wanted) && strategy.disable_all) return renameRefused(target, wanted);
  const all = planMigration(table, known, relation, strategy);
  const changes = naming.isShared(relation) ? changesOfShared(table, all) : all;
  const refused = refusedChanges(strategy, changes);
  const fits = isReplaced && !naming.isShared(relation) && fitsByName(table, relation, strategy);
  if (refused.length > 0 && !fits)
    return migrationRefused(target, refused, await migrationSql(client, target, refused, false));
  const dependents = fits ? null : await findDependents(client, table, changes);
  if (dependents) return dependents;
  if (nullColumn === null || isAllowed(strategy, "Nullability")) return null;
  const isRefusing = table.columns.some(({ name, notNull }) => name === nullColumn && notNull);
  return isRefusing ? nullRefused(target, nullColumn) : null;
}
