// Alters a target so that it takes a relation's rows, as far as the connector's migration strategy allows.

import { type Client, escapeIdentifier } from "pg";
import { qualifiedName, type Relation } from "../../../../change/relation.ts";
import { sqlStateOf } from "../../../../connection/postgres-failure.ts";
import { sqlName } from "../../../../connection/sql-name.ts";
import { sqlState } from "../../../../connection/sql-state.ts";
import type { PostgresSinkConfig } from "../../../../connector/config/sink-config.ts";
import { MillraceError } from "../../../../errors/millrace-error.ts";
import { clearComputed, computedFrom } from "../../generated/computed-plan.ts";
import { clearSql } from "../../generated/make-computed.ts";
import { columnsComputed, computedRefused } from "../../refusals/table-differences.ts";
import type { TargetName } from "../target-name.ts";
import type { TargetTable } from "../target-table.ts";
import { findDependents } from "./column-dependents.ts";
import type { AddKey } from "./key-migration.ts";
import { historyInTheWay, migrationRefused, migrationSql } from "./migration-sql.ts";
import { withRebuilt } from "./rebuilt-objects.ts";
import { changesOfOthers, changesOfShared } from "./shared-migration.ts";
import { type FollowedShape, fitsByName, planMigration, refusedChanges } from "./table-migration.ts";

export interface Fitted {
  readonly isChanged: boolean;
  /** Another key identifies the table's rows from here on. */
  readonly isKeyChanged: boolean;
  /** The key to be added once the relation's rows are there; null: none. */
  readonly key: AddKey | null;
}

/**
 * In the open transaction. `known`: the shape that the target follows; null: not known. `areReplaced`: a copy replaces all rows, so that they
 * are deleted first if they would have to be converted. `isShared`: the target has rows of other tables, so that nothing is dropped, renamed
 * or retyped. Throws `sink_schema_mismatch` with the SQL to run if the strategy does not allow the changes.
 */
export async function fitTable(
  client: Client,
  strategy: PostgresSinkConfig["migration_strategy"],
  given: TargetTable,
  known: FollowedShape | null,
  relation: Relation,
  { areReplaced = false, isShared = false } = {},
): Promise<Fitted> {
  if (given.isHistory) throw historyInTheWay(given.target);
  const cleared = clearComputed(given, relation, strategy);
  const { table } = cleared;
  const computed = columnsComputed(table, relation);
  if (computed.length > 0) throw computedRefused(table, computed);
  const all = planMigration(table, known, relation, strategy);
  const changes = isShared ? changesOfShared(table, all) : all;
  const refused = [...refusedChanges(strategy, changes), ...(isShared ? changesOfOthers(changes) : [])];
  if (refused.length > 0 && areReplaced && fitsByName(table, relation, strategy)) {
    return { isChanged: false, isKeyChanged: false, key: null };
  }
  if (refused.length > 0) {
    const sql = await migrationSql(client, table.target, refused, false);
    throw isShared ? sharedRefused(table.target, sql) : migrationRefused(table.target, refused, sql);
  }
  const drops = [...cleared.drops, ...computedFrom(table, changes, strategy)];
  const dependents = await findDependents(client, table, changes, drops);
  if (dependents) throw dependents;
  const isCleared = drops.length > 0 || cleared.undone.length > 0;
  for (const sql of clearSql(table.target, { ...cleared, drops })) await client.query(sql);
  const areConverted = changes.some(({ kind }) => kind === "retype");
  if (areConverted && areReplaced) await client.query(`delete from ${table.ownRows}`);
  const made = changes.filter(({ kind }) => kind !== "add key");
  const statements = await migrationSql(client, table.target, made, areReplaced);
  await withRebuilt(client, table, changes, async () => {
    for (const sql of statements) await client.query(sql);
  });
  return {
    isChanged: changes.length > 0 || isCleared,
    isKeyChanged: changes.some(({ kind }) => kind === "drop key" || kind === "add key"),
    key: changes.find((change) => change.kind === "add key") ?? null,
  };
}

/** Stops all tables of a shared target: if one were set aside, its next copy could not tell its own rows from the others. */
function sharedRefused(target: TargetName, sql: readonly string[]): MillraceError {
  return new MillraceError(
    "sink_schema_mismatch",
    `Table ${qualifiedName(target)} at the sink does not fit one of those that are merged into it, and holds rows of the others: ` +
      `millrace does not change it. Run: ${sql.map((statement) => `${statement};`).join(" ")}`,
  );
}

/** Drops NOT NULL from the columns with these numbers. The target follows the relation. */
export async function dropNotNull(
  client: Client,
  { target, uniqueKeys }: TargetTable,
  relation: Relation,
  numbers: ReadonlySet<number>,
): Promise<void> {
  const columns = relation.columns.filter(({ number }) => numbers.has(number));
  if (columns.length === 0) return;
  const clauses = columns.map(({ name }) => `alter column ${escapeIdentifier(name)} drop not null`);
  await client.query(`alter table ${sqlName(target)} ${clauses.join(", ")}`).catch((error: unknown) => {
    const primary = uniqueKeys.find(({ isPrimary }) => isPrimary);
    const isInKey = sqlStateOf(error) === sqlState.invalidTableDefinition && primary;
    throw isInKey ? keyRefusesNull(target, primary.name, error) : error;
  });
}

function keyRefusesNull(target: TargetName, key: string, cause: unknown): MillraceError {
  return new MillraceError(
    "sink_schema_mismatch",
    `A row came with null in a column of the primary key of ${qualifiedName(target)} at the sink, which millrace did not ` +
      `make. Run: ALTER TABLE ${sqlName(target)} DROP CONSTRAINT ${escapeIdentifier(key)};`,
    { cause },
  );
}

/**
 * The SQL that makes the changes where existing rows cannot be converted: columns that get another type are emptied. Empty: no column gets one.
 */
export async function emptyingSql(
  client: Client,
  strategy: PostgresSinkConfig["migration_strategy"],
  table: TargetTable,
  known: FollowedShape | null,
  relation: Relation,
): Promise<readonly string[]> {
  const changes = planMigration(table, known, relation, strategy).filter(({ kind }) => kind !== "add key");
  const areConverted = changes.some(({ kind }) => kind === "retype");
  return areConverted ? await migrationSql(client, table.target, changes, true) : [];
}

/** Values of existing rows cannot be converted to a column's new type: there is no cast (42846, 42804), or one does not fit (class 22). */
export function isConversionRefused(error: unknown): boolean {
  const state = sqlStateOf(error) ?? "";
  return state === "42846" || state === "42804" || state.startsWith("22");
}

/** Whether existing rows cannot be converted to the source's shape: by a column's type, or because they violate the new key. */
export function areRowsUnfit(error: unknown): boolean {
  const state = sqlStateOf(error);
  return (
    isConversionRefused(error) || state === sqlState.notNullViolation || state === sqlState.uniqueViolation
  );
}
