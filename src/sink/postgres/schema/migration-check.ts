// Checks, without changing anything, whether a target needs a change that the connector may not make.

import type { Client } from "pg";
import type { Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { ShapeRecord } from "../bookkeeping/shape-ledger.ts";
import { clearComputed, computedFrom } from "../generated/computed-plan.ts";
import type { MigrationRefused } from "../refusals/migration-refused.ts";
import { findDependents } from "./column-dependents.ts";
import { migrationRefused, migrationSql, nullRefused } from "./migration-sql.ts";
import { changesOfShared } from "./shared-migration.ts";
import { fitsByName, isAllowed, planMigration, refusedChanges } from "./table-migration.ts";
import { renameRefused } from "./table-rename.ts";
import { nameTaken } from "./taken-name.ts";
import type { TargetNaming } from "./target-naming.ts";
import { readTargetTables, type TargetTable } from "./target-table.ts";

export interface CheckedTable {
  readonly relation: Relation;
  /** The shape that the target follows. */
  readonly known: ShapeRecord | null;
  /** Another table of ours still has the relation's name at the sink, and will be renamed. */
  readonly isNameTaken: boolean;
  /** The next copy replaces all rows. */
  readonly isReplaced: boolean;
  /** A column that must take null. */
  readonly nullColumn: string | null;
}

/** Returns for each table why it cannot take its relation's rows; null: it can, or does not exist. */
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
  given: TargetTable,
): Promise<MigrationRefused | null> {
  const { target } = given;
  const { table, drops } = clearComputed(given, relation, strategy);
  const wanted = naming.target(relation);
  if (sqlName(target) !== sqlName(wanted) && strategy.disable_all) return renameRefused(target, wanted);
  const all = planMigration(table, known, relation, strategy);
  const changes = naming.isShared(relation) ? changesOfShared(table, all) : all;
  const refused = refusedChanges(strategy, changes);
  const fits = isReplaced && !naming.isShared(relation) && fitsByName(table, relation, strategy);
  if (refused.length > 0 && !fits)
    return migrationRefused(target, refused, await migrationSql(client, target, refused, false));
  const computed = [...drops, ...computedFrom(table, changes, strategy)];
  const dependents = fits ? null : await findDependents(client, table, changes, computed);
  if (dependents) return dependents;
  if (nullColumn === null || isAllowed(strategy, "Nullability")) return null;
  const isRefusing = table.columns.some(({ name, notNull }) => name === nullColumn && notNull);
  return isRefusing ? nullRefused(target, nullColumn) : null;
}
