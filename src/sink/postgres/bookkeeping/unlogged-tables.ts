// Notices that unlogged targets are empty because the server has crashed or a standby was promoted, while the logged checkpoint says that
// their rows are there. A row in an unlogged table of millrace's own is the witness: it is lost with them.
// https://www.postgresql.org/docs/current/sql-createtable.html#SQL-CREATETABLE-UNLOGGED

import type { Client } from "pg";
import { sqlName } from "../../../connection/sql-name.ts";
import type { TargetName } from "../schema/target-name.ts";

/** A partitioned table may have unlogged partitions. */
const unloggedQuery = `
select wanted.place::int4 - 1 as place from unnest($1::text[]) with ordinality as wanted(name, place)
join pg_class c on c.oid = to_regclass(wanted.name)
where c.relpersistence = 'u' or c.relkind = 'p' and exists (
  select from pg_partition_tree(c.oid) leaf join pg_class l on l.oid = leaf.relid where l.relpersistence = 'u')`;

/**
 * Calls `voidOf` with the indexes in `targets` of tables whose rows are gone with a crash of the sink's server: the next copies bring them. Durable
 * on return.
 */
export async function voidLost(
  client: Client,
  connectorId: string,
  targets: readonly TargetName[],
  voidOf: (place: number) => Promise<void>,
): Promise<void> {
  const unlogged = await findUnlogged(client, targets);
  if (unlogged.length === 0 || (await areRowsThere(client, connectorId))) return;
  for (const place of unlogged) await voidOf(place);
  // As durable as the rows.
  await client.query("insert into millrace.unlogged_witness values ($1) on conflict do nothing", [
    connectorId,
  ]);
}

/** Returns the indexes in `targets` of unlogged tables. */
async function findUnlogged(client: Client, targets: readonly TargetName[]): Promise<readonly number[]> {
  const { rows } = await client.query<{ place: number }>(unloggedQuery, [targets.map(sqlName)]);
  return rows.map(({ place }) => place);
}

/** Whether the rows that earlier runs wrote to unlogged tables are still there. */
async function areRowsThere(client: Client, connectorId: string): Promise<boolean> {
  const { rowCount } = await client.query("select from millrace.unlogged_witness where connector_id = $1", [
    connectorId,
  ]);
  return rowCount === 1;
}
