// The tables that a copy beside the stream has in the target database: the rows as they were copied, the keys that the stream has touched
// since, and what is to be mended. A record tells the next run of them, and what they are good for: see kept-copies.ts.

import { type Client, escapeIdentifier } from "pg";
import type { PageRange } from "../../../change/page-range.ts";
import type { Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { TargetName } from "../schema/target-name.ts";
import type { TargetTable } from "../schema/target-table.ts";

export interface BesideTables {
  readonly name: string;
  /** The columns of the relation, typed as the sink's table is. */
  readonly rows: TargetName;
  /**
   * The key's columns `k0`, `k1`, …; `is_partial`: each change so far lacked values, which the sink's row has to have itself;
   * `is_moved`: it may have them of a row that had another key.
   */
  readonly touched: TargetName;
  /** `n` from 1 on, the key's columns, and `kind`; see mend-list.ts. */
  readonly mend: TargetName;
}

/** What copied rows are good for while it stays as it is. */
export interface BesideFacts {
  readonly tableId: number;
  /** `dividedMark` of the table at the source. */
  readonly mark: string;
  /** Tells the copy that the sink's table comes from. */
  readonly stamp: string | null;
  /** What the sink's table is, and what it has followed. */
  readonly target: string;
  readonly shape: string;
  readonly keyNames: readonly string[];
  /** See `TouchedTable`. */
  readonly sharedAs: string | null;
}

/** A range of the rows, and how many there are in it. */
export interface BesideRange extends PageRange {
  readonly rows: number;
}

/** `name` is of letters, digits, - and _, and not much longer than a connector's id. */
export function besideTables(name: string): BesideTables {
  const table = (what: string) => ({ schema: "millrace", name: `${what}_${name}` });
  return { name, rows: table("rows"), touched: table("touched"), mend: table("mend") };
}

const columnsQuery = `
select a.attname as name, format_type(a.atttypid, a.atttypmod) ||
  coalesce(' collate ' || quote_ident(n.nspname) || '.' || quote_ident(c.collname), '') as type
from pg_attribute a left join pg_collation c on c.oid = a.attcollation left join pg_namespace n on n.oid = c.collnamespace
where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped`;

/** Of a connector's copies, those that a condition behind it picks. */
const forgetSql = "update millrace.copy_beside set kept = null where connector_id = $1";

/** In the open transaction. It takes no lock of the target. What is kept of the table otherwise counts no more. */
export async function createBesideTables(
  client: Client,
  connectorId: string,
  target: TargetTable,
  relation: Relation,
): Promise<BesideTables> {
  const tables = besideTables(`${connectorId}_${relation.id}_${crypto.randomUUID().slice(0, 8)}`);
  const { rows } = await client.query<{ name: string; type: string }>(columnsQuery, [target.oid]);
  const typeOf = new Map(rows.map(({ name, type }) => [name, type]));
  const columns = relation.columns.map(({ name }) => `${escapeIdentifier(name)} ${typeOf.get(name)}`);
  const keys = relation.key.map((at, i) => `k${i} ${typeOf.get(relation.columns[at]!.name)}`);
  const primary = relation.key.map((_, i) => `k${i}`).join(", ");
  await client.query(`${forgetSql} and (kept->>'tableId')::int8 = $2`, [connectorId, relation.id]);
  await client.query("insert into millrace.copy_beside (connector_id, name) values ($1, $2)", [
    connectorId,
    tables.name,
  ]);
  await client.query(`create unlogged table ${sqlName(tables.rows)} (${columns.join(", ")})`);
  await client.query(
    `create table ${sqlName(tables.touched)} (${keys.join(", ")}, is_partial bool not null, ` +
      `is_moved bool not null, primary key (${primary}))`,
  );
  return tables;
}

/** In the open transaction, before any row is there: from here on what is taken outlives the run, and a crash of the server. */
export async function keepBesideTables(
  client: Client,
  connectorId: string,
  { name, rows }: BesideTables,
  facts: BesideFacts,
): Promise<void> {
  await client.query(`alter table ${sqlName(rows)} set logged`);
  const sql = "update millrace.copy_beside set kept = $3 where connector_id = $1 and name = $2";
  await client.query(sql, [connectorId, name, JSON.stringify(facts)]);
}

/** What was taken counts no more, from the end of the open transaction on. */
export async function forgetBesideTables(client: Client, connectorId: string, name: string): Promise<void> {
  await client.query(`${forgetSql} and name = $2`, [connectorId, name]);
}

/**
 * In the open transaction, before the rows of a range: who takes the copy up waits for the transaction's end. Who applies changes does not;
 * nor does a slot that is made on the same server, which would wait for whoever locks a row.
 */
export async function shareBesideTables(client: Client, { rows }: BesideTables): Promise<void> {
  await client.query(`lock table ${sqlName(rows)} in row exclusive mode`);
}

/** In the open transaction, with the range's rows. */
export async function recordBesideRange(
  client: Client,
  connectorId: string,
  { name }: BesideTables,
  { from, to, rows }: BesideRange,
): Promise<void> {
  await client.query(
    "insert into millrace.beside_range (connector_id, name, first_page, next_page, row_count) values ($1, $2, $3, $4, $5)",
    [connectorId, name, from, to, rows],
  );
}

/** In the open transaction: once nobody is taking any more, those that were taken. */
export async function readBesideRanges(
  client: Client,
  connectorId: string,
  tables: BesideTables,
): Promise<readonly BesideRange[]> {
  await client.query(`lock table ${sqlName(tables.rows)} in share mode`);
  const { rows } = await client.query<{ from: number; to: number | null; rows: number }>(
    "select first_page::float8 as from, next_page::float8 as to, row_count::float8 as rows from millrace.beside_range " +
      "where connector_id = $1 and name = $2",
    [connectorId, tables.name],
  );
  return rows;
}

/** In the open transaction: nothing was taken, and what is taken now counts for no other attempt. */
export async function emptyBesideTables(
  client: Client,
  connectorId: string,
  tables: BesideTables,
): Promise<void> {
  await client.query(`truncate ${sqlName(tables.rows)}`);
  await forgetBesideTables(client, connectorId, tables.name);
}

/** In the open transaction. */
export async function dropBesideTables(
  client: Client,
  connectorId: string,
  { name, rows, touched, mend }: BesideTables,
): Promise<void> {
  await client.query(`drop table if exists ${[rows, touched, mend].map(sqlName).join(", ")}`);
  for (const table of ["beside_range", "copy_beside"]) {
    const sql = `delete from millrace.${table} where connector_id = $1 and name = $2`;
    await client.query(sql, [connectorId, name]);
  }
}

/** What earlier runs of the connector have left. Durable on return; in no transaction. */
export async function dropAllBesideTables(client: Client, connectorId: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "select name from millrace.copy_beside where connector_id = $1",
    [connectorId],
  );
  for (const { name } of rows) {
    await client.query("begin");
    await dropBesideTables(client, connectorId, besideTables(name));
    await client.query("commit");
  }
}
