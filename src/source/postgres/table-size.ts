// Whether a table can be copied in ranges of its pages, and how large it is: asked in a session that reads as of the copy's
// snapshot.
// https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-ADMIN-DBSIZE

import type { Client } from "pg";
import type { TableSize } from "../../change/page-range.ts";
import type { Relation, TableShape } from "../../change/relation.ts";
import type { TableSelection } from "./table-selection.ts";

/** Pages have addresses that can be asked for in heaps alone. A table that is gone has no row. */
const sizeQuery = `
select (pg_relation_size(c.oid) / current_setting('block_size')::int8)::float8 as pages, pg_table_size(c.oid)::float8 as bytes
from pg_class c join pg_am am on am.oid = c.relam
where c.oid = $1 and c.relkind = 'r' and am.amname = 'heap'`;

/** Null: the table can only be copied whole. */
export async function readTableSize(client: Client, { relation }: TableShape): Promise<TableSize | null> {
  const { rows } = await client.query<TableSize>(sizeQuery, [relation.id]);
  const [size] = rows;
  return size?.pages && size.bytes ? size : null;
}

/**
 * Whether ranges of the table's pages may be copied as of different points: rows move between pages, so that something must tell
 * them apart, and the source must be able to find one that is in none of the ranges.
 */
export function hasRanges(table: TableShape, selection: TableSelection): boolean {
  const { relation, isPartitioned } = table;
  const isKeyed = relation.keyId !== undefined && isKeyedByPrimary(relation);
  if (isPartitioned || !isKeyed) return false;
  const hashed = selection.hashedColumns(relation.schema, relation.name);
  return relation.key.every((i) => !hashed.includes(relation.columns[i]!.name));
}

function isKeyedByPrimary({ replicaIdentity, key, isKeyedByHash }: Relation): boolean {
  const isPrimary = replicaIdentity === "default" || replicaIdentity === "full";
  return isPrimary && key.length > 0 && isKeyedByHash !== true;
}

const keyQuery = `
select (select con.oid from pg_constraint con where con.conrelid = c.oid and con.contype = 'p')::int8::float8 as "keyId",
  c.relreplident as identity from pg_class c where c.oid = $1`;

/** In the copy's snapshot: whether its rows are told apart by what the table's shape says. */
export async function hasSameKey(client: Client, { relation }: TableShape): Promise<boolean> {
  const { rows } = await client.query<{ keyId: number | null; identity: string }>(keyQuery, [relation.id]);
  const identity = relation.replicaIdentity === "full" ? "f" : "d";
  return rows[0]?.keyId === relation.keyId && rows[0]?.identity === identity;
}
