// The tables that a copy beside the stream has in the target database: the rows as they were copied, the keys that the stream has touched
// since, and what is to be mended. They are of use to nobody once the copy has ended, however that was; a record tells the next run.

import { type Client, escapeIdentifier } from "pg";
import type { Relation } from "../../change/relation.ts";
import { sqlName } from "../../connection/sql-name.ts";
import type { TargetName } from "./target-name.ts";
import type { TargetTable } from "./target-table.ts";

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

/** `name` is of letters, digits, - and _, and not much longer than a connector's id. */
function besideTables(name: string): BesideTables {
  const table = (what: string) => ({ schema: "millrace", name: `${what}_${name}` });
  return { name, rows: table("rows"), touched: table("touched"), mend: table("mend") };
}

const columnsQuery = `
select a.attname as name, format_type(a.atttypid, a.atttypmod) ||
  coalesce(' collate ' || quote_ident(n.nspname) || '.' || quote_ident(c.collname), '') as type
from pg_attribute a left join pg_collation c on c.oid = a.attcollation left join pg_namespace n on n.oid = c.collnamespace
where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped`;

/** In the open transaction. It takes no lock of the target. */
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
  await client.query("insert into millrace.copy_beside (connector_id, name) values ($1, $2)", [
    connectorId,
    tables.name,
  ]);
  await client.query(`create unlogged table ${sqlName(tables.rows)} (${columns.join(", ")})`);
  await client.query(
    `create unlogged table ${sqlName(tables.touched)} (${keys.join(", ")}, is_partial bool not null, ` +
      `is_moved bool not null, primary key (${primary}))`,
  );
  return tables;
}

/** In the open transaction. */
export async function dropBesideTables(
  client: Client,
  connectorId: string,
  { name, rows, touched, mend }: BesideTables,
): Promise<void> {
  await client.query(`drop table if exists ${[rows, touched, mend].map(sqlName).join(", ")}`);
  await client.query("delete from millrace.copy_beside where connector_id = $1 and name = $2", [
    connectorId,
    name,
  ]);
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
