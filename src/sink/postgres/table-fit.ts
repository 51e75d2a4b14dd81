// Changes a table at the sink so that it takes a relation's rows, as far as the connector's migration strategy allows.

import { type Client, escapeIdentifier } from "pg";
import { qualifiedName, type Relation } from "../../change/relation.ts";
import { sqlStateOf } from "../../connection/postgres-failure.ts";
import { sqlName } from "../../connection/sql-name.ts";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { migrationRefused, migrationSql } from "./migration-sql.ts";
import { changesOfOthers, type FollowedColumn, planMigration, refusedChanges } from "./table-migration.ts";
import type { TargetName } from "./target-name.ts";
import type { TargetTable } from "./target-table.ts";

/**
 * In the open transaction. `known`: the columns as the table followed them last; null when nothing is known. `areReplaced`:
 * the rows that are there are to be replaced by others, and go first where they would have to be converted. `isShared`: rows of
 * other tables are there, so that no column goes, is renamed or gets another type. Returns whether
 * anything was changed. Throws `sink_schema_mismatch` with the SQL to run when the strategy does not allow the changes.
 */
export async function fitTable(
  client: Client,
  strategy: PostgresSinkConfig["migration_strategy"],
  table: TargetTable,
  known: readonly FollowedColumn[] | null,
  relation: Relation,
  { areReplaced = false, isShared = false } = {},
): Promise<boolean> {
  requireWritable(table, relation);
  const all = planMigration(table, known, relation, strategy);
  const changes = isShared ? all.filter(({ kind }) => kind !== "drop") : all;
  const refused = [...refusedChanges(strategy, changes), ...(isShared ? changesOfOthers(changes) : [])];
  if (refused.length > 0) {
    const sql = await migrationSql(client, table.target, refused, false);
    throw isShared ? sharedRefused(table.target, sql) : migrationRefused(table.target, sql);
  }
  const areConverted = changes.some(({ kind }) => kind === "retype");
  if (areConverted && areReplaced) await client.query(`delete from ${table.ownRows}`);
  for (const sql of await migrationSql(client, table.target, changes, areReplaced)) await client.query(sql);
  return changes.length > 0;
}

/** The tables stop together: a copy of one, once it is mended, would not know which of the rows that are there are its own. */
function sharedRefused(target: TargetName, sql: readonly string[]): MillraceError {
  return new MillraceError(
    "sink_schema_mismatch",
    `Table ${qualifiedName(target)} at the sink does not fit one of those that are merged into it, and holds rows of the others: ` +
      `millrace does not change it. Run: ${sql.map((statement) => `${statement};`).join(" ")}`,
  );
}

/** A column that the sink's own table computes takes no values. */
function requireWritable(table: TargetTable, relation: Relation): void {
  const computed = table.columns.find(
    ({ name, generated }) => generated && relation.columns.some((column) => column.name === name),
  );
  if (!computed) return;
  throw new MillraceError(
    "sink_schema_mismatch",
    `Column ${computed.name} of table ${qualifiedName(table.target)} is computed at the sink, and the source has values for it. ` +
      `Exclude it in the catalog, or run: ALTER TABLE ${sqlName(table.target)} ALTER COLUMN ${escapeIdentifier(computed.name)} ` +
      "DROP EXPRESSION;",
  );
}

/** Lets columns of these numbers take null. The table has followed the relation. */
export async function dropNotNull(
  client: Client,
  target: TargetName,
  relation: Relation,
  numbers: ReadonlySet<number>,
): Promise<void> {
  const columns = relation.columns.filter(({ number }) => numbers.has(number));
  if (columns.length === 0) return;
  const clauses = columns.map(({ name }) => `alter column ${escapeIdentifier(name)} drop not null`);
  await client.query(`alter table ${sqlName(target)} ${clauses.join(", ")}`);
}

/** cannot_coerce, datatype_mismatch */
const noConversion = new Set(["42846", "42804"]);

/** Whether rows that are there could not be given another type: there is no cast, or a value (class 22) has no place in it. */
export function isConversionFailure(error: unknown): boolean {
  const state = sqlStateOf(error) ?? "";
  return noConversion.has(state) || state.startsWith("22");
}
