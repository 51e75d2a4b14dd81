// Makes the sink's tables fit the source's, and says what is wrong where it may not or cannot.

import { type Client, escapeIdentifier } from "pg";
import type { Column, Relation, TableShape } from "../../change/relation.ts";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { sqlList, sqlName, type TargetName } from "./target-name.ts";
import type { TargetTable } from "./target-table.ts";

type MigrationStrategy = PostgresSinkConfig["migration_strategy"];

/** CREATE SCHEMA and CREATE TABLE with the source's types, without its primary key. A type that the sink lacks becomes text. */
export async function createTable(client: Client, target: TargetName, shape: TableShape): Promise<void> {
  const { rows } = await client.query<{ exists: boolean }>(
    "select to_regnamespace($1) is not null as exists",
    [escapeIdentifier(target.schema)],
  );
  if (!rows[0]?.exists) await client.query(`create schema if not exists ${escapeIdentifier(target.schema)}`);
  const types = await resolveTypes(client, shape.relation.columns);
  const columns = shape.relation.columns.map((column, i) => {
    const notNull = shape.notNull.includes(column.name) ? " not null" : "";
    return `${escapeIdentifier(column.name)} ${types[i]}${notNull}`;
  });
  await client.query(`create table ${sqlName(target)} (${columns.join(", ")})`);
}

export async function addPrimaryKey(client: Client, target: TargetName, shape: TableShape): Promise<void> {
  if (shape.primaryKey.length === 0) return;
  await client.query(`alter table ${sqlName(target)} add primary key (${sqlList(shape.primaryKey)})`);
}

/** The types' names at the sink, as SQL: the source's where it knows them, else text. */
async function resolveTypes(client: Client, columns: readonly Column[]): Promise<readonly string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select case when c.oid < 16384 then format_type(c.oid, c.typmod)
       when to_regtype(c.name) is not null then c.name else 'text' end as name
     from unnest($1::oid[], $2::int4[], $3::text[]) with ordinality as c(oid, typmod, name, place) order by place`,
    [
      columns.map((column) => column.typeOid),
      columns.map((column) => column.typmod),
      columns.map((column) => column.typeName),
    ],
  );
  return columns.map((_, i) => rows[i]?.name ?? "text");
}

/** Whether the sink knows every type by the source's name for it. */
export async function hasAllTypes(client: Client, columns: readonly Column[]): Promise<boolean> {
  const own = columns.filter((column) => column.typeOid >= 16_384);
  if (own.length === 0) return true;
  const { rows } = await client.query<{ known: boolean }>(
    "select bool_and(to_regtype(name) is not null) as known from unnest($1::text[]) as c(name)",
    [own.map((column) => column.typeName)],
  );
  return rows[0]?.known === true;
}

/** SQL that makes `table` able to take the relation's rows; empty when it is. */
export async function schemaChanges(
  client: Client,
  table: TargetTable,
  relation: Relation,
): Promise<readonly string[]> {
  const missing = relation.columns.filter(
    (column) => !table.columns.some((candidate) => candidate.name === column.name),
  );
  const types = await resolveTypes(client, missing);
  const added = missing.map(
    (column, i) =>
      `alter table ${sqlName(table.target)} add column ${escapeIdentifier(column.name)} ${types[i]}`,
  );
  // A column that the source no longer has stays, with what it holds; it must not refuse new rows.
  const relaxed = table.columns
    .filter((column) => column.notNull && !column.hasDefault && !column.generated)
    .filter((column) => !relation.columns.some((candidate) => candidate.name === column.name))
    .map(
      (column) =>
        `alter table ${sqlName(table.target)} alter column ${escapeIdentifier(column.name)} drop not null`,
    );
  return [...added, ...relaxed];
}

/** Throws `sink_schema_mismatch` with the SQL to run when the strategy does not allow the changes. */
export function requireAllowed(
  strategy: MigrationStrategy,
  target: TargetName,
  sql: readonly string[],
): void {
  if (sql.length === 0) return;
  const isAdd = sql.every((statement) => / add column /.test(statement));
  const needed = isAdd ? (["Add"] as const) : (["Add", "Nullability"] as const);
  if (!strategy.disable_all && needed.every((change) => strategy.allowed.includes(change))) return;
  throw new MillraceError(
    "sink_schema_mismatch",
    `Table ${target.schema}.${target.name} at the sink does not fit the source's, and migration_strategy does not allow ` +
      `millrace to change it. Run: ${sql.map((statement) => `${statement};`).join(" ")}`,
  );
}
