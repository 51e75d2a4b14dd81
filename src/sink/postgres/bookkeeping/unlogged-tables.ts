// Notices that unlogged tables at the sink are empty because its server has crashed, or is a standby that took over: the
// checkpoint, which is logged, says that their rows are there. A row in an unlogged table of millrace's own goes the same way.
// https://www.postgresql.org/docs/current/sql-createtable.html#SQL-CREATETABLE-UNLOGGED

import type { Client } from "pg";
import { sqlName } from "../../../connection/sql-name.ts";
import type { TargetName } from "../schema/target-name.ts";

/** Of a partitioned table, its partitions may be unlogged. */
const unloggedQuery = `
select wanted.place::int4 - 1 as place from unnest($1::text[]) with ordinality as wanted(name, place)
join pg_class c on c.oid = to_regclass(wanted.name)
where c.relpersistence = 'u' or c.relkind = 'p' and exists (
  select from pg_partition_tree(c.oid) leaf join pg_class l on l.oid = leaf.relid where l.relpersistence = 'u')`;

/** Places among `targets`. */
export async function findUnlogged(
  client: Client,
  targets: readonly TargetName[],
): Promise<readonly number[]> {
  const { rows } = await client.query<{ place: number }>(unloggedQuery, [targets.map(sqlName)]);
  return rows.map(({ place }) => place);
}

/** Whether the rows that the connector's earlier runs have written to unlogged tables are there. */
export async function areRowsKept(client: Client, connectorId: string): Promise<boolean> {
  const { rowCount } = await client.query("select from millrace.unlogged_witness where connector_id = $1", [
    connectorId,
  ]);
  return rowCount === 1;
}

/** From here on: durable as the rows are. To be called when what is lost is noted. */
export async function watchRows(client: Client, connectorId: string): Promise<void> {
  await client.query("insert into millrace.unlogged_witness values ($1) on conflict do nothing", [
    connectorId,
  ]);
}
