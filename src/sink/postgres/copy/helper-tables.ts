// The tables that a copy makes for itself in schema millrace. Their names come from the connector and the table, so that the next run finds
// them.

import { type Client, escapeIdentifier } from "pg";
import type { Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { TargetName } from "../schema/target-name.ts";
import type { TargetTable } from "../schema/target-table.ts";

export interface HelperTables {
  /** Rows of a blocking copy's ranges. When all are there, it is renamed to be the target. */
  readonly side: TargetName;
  /** Keys that the stream has touched, as `k0`, `k1`, … `is_partial`: it brought only some columns. */
  readonly touched: TargetName;
  /** Keys that chunks have brought, in `replace` mode: rows with other keys are deleted at the end. */
  readonly seen: TargetName;
}

const named = (name: string): TargetName => ({ schema: "millrace", name });

export function helperTables(connectorId: string, tableId: number): HelperTables {
  const of = `${connectorId}_${tableId}`;
  return { side: named(`copy_${of}`), touched: named(`touched_${of}`), seen: named(`seen_${of}`) };
}

/** The staging table of one chunk. Each chunk of a copy has another `number`. */
export function chunkTable(connectorId: string, tableId: number, number: number): TargetName {
  return named(`chunk_${connectorId}_${tableId}_${number}`);
}

/** The staging tables of the table's chunks that exist. */
export async function leftChunkTables(
  client: Client,
  connectorId: string,
  tableId: number,
): Promise<readonly TargetName[]> {
  const { rows } = await client.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'millrace'::regnamespace and relkind = 'r'
      and left(relname, length($1)) = $1 and substr(relname, length($1) + 1) ~ '^[0-9]+$'`,
    [`chunk_${connectorId}_${tableId}_`],
  );
  return rows.map(({ name }) => named(name));
}

/** OIDs of source tables whose copies have left key tables here, recorded or not. */
export async function tablesWithCopies(client: Client, connectorId: string): Promise<readonly number[]> {
  const { rows } = await client.query<{ id: number }>(
    `select distinct substring(substr(relname, length(prefix) + 1) from '^[0-9]+')::float8 as id
      from pg_class, unnest($1::text[]) as prefix
      where relnamespace = 'millrace'::regnamespace and relkind = 'r' and left(relname, length(prefix)) = prefix
        and substr(relname, length(prefix) + 1) ~ '^[0-9]+$'`,
    [["touched", "seen"].map((kind) => `${kind}_${connectorId}_`)],
  );
  return rows.map(({ id }) => id);
}

/** Drops staged chunks that an earlier attempt has not written to the target. */
export async function dropChunkTables(client: Client, connectorId: string, tableId: number): Promise<void> {
  const left = await leftChunkTables(client, connectorId, tableId);
  if (left.length > 0) await client.query(`drop table ${left.map(sqlName).join(", ")}`);
}

const columnsQuery = `
select a.attname as name, format_type(a.atttypid, a.atttypmod) ||
  coalesce(' collate ' || quote_ident(n.nspname) || '.' || quote_ident(c.collname), '') as type
from pg_attribute a left join pg_collation c on c.oid = a.attcollation left join pg_namespace n on n.oid = c.collnamespace
where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped`;

/** Types of the target's columns as SQL, by column name. */
async function columnTypes(client: Client, target: TargetTable): Promise<ReadonlyMap<string, string>> {
  const { rows } = await client.query<{ name: string; type: string }>(columnsQuery, [target.oid]);
  return new Map(rows.map(({ name, type }) => [name, type]));
}

/** In the open transaction. Both tables are logged: a crash must not lose keys whose changes it keeps. */
export async function createKeyTables(
  client: Client,
  { touched, seen }: HelperTables,
  target: TargetTable,
  relation: Relation,
  recordsSeen: boolean,
): Promise<void> {
  const types = await columnTypes(client, target);
  const keys = relation.key.map((at, i) => `k${i} ${types.get(relation.columns[at]!.name)}`).join(", ");
  const primary = relation.key.map((_, i) => `k${i}`).join(", ");
  await client.query(
    `create table ${sqlName(touched)} (${keys}, is_partial bool not null, primary key (${primary}))`,
  );
  if (recordsSeen) await client.query(`create table ${sqlName(seen)} (${keys}, primary key (${primary}))`);
}

/** In the open transaction: makes a table for the relation's rows with the target's types. */
export async function createRowsTable(
  client: Client,
  name: string,
  kind: "unlogged" | "temporary",
  target: TargetTable,
  { columns }: Relation,
): Promise<void> {
  const types = await columnTypes(client, target);
  const list = columns
    .map((column) => `${escapeIdentifier(column.name)} ${types.get(column.name)}`)
    .join(", ");
  await client.query(
    `create ${kind} table ${name} (${list})${kind === "temporary" ? " on commit drop" : ""}`,
  );
}
