// Whether a table can be copied in ranges of its pages, and how large it is: asked in a session that reads as of the copy's
// snapshot.
// https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-ADMIN-DBSIZE

import type { Client } from "pg";
import type { TableSize } from "../../../change/page-range.ts";
import type { Relation, ReplicaIdentity, TableShape } from "../../../change/relation.ts";
import type { TableSelection } from "../catalog/table-selection.ts";

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
  c.relreplident as identity,
  (select json_agg(numbers.n order by numbers.n) from pg_index i, unnest(i.indkey::int2[]) with ordinality as numbers(n, place)
    where i.indrelid = c.oid and i.indisreplident and numbers.place <= i.indnkeyatts) as numbers
from pg_class c where c.oid = $1`;

interface KeyRow {
  readonly keyId: number | null;
  /** `pg_class.relreplident`. */
  readonly identity: string;
  /** Of the columns of the index that identifies a row, where one was chosen; in their order by number. */
  readonly numbers: readonly number[] | null;
}

const identities: Readonly<Record<ReplicaIdentity, string>> = {
  default: "d",
  full: "f",
  index: "i",
  nothing: "n",
};

/** In the copy's snapshot: whether its rows are told apart by what the table's shape says. */
export async function hasSameKey(client: Client, { relation }: TableShape): Promise<boolean> {
  const { rows } = await client.query<KeyRow>(keyQuery, [relation.id]);
  const [row] = rows;
  if (!row || row.identity !== identities[relation.replicaIdentity]) return false;
  if (relation.replicaIdentity !== "index") return row.keyId === relation.keyId;
  const numbers = relation.key.map((i) => relation.columns[i]!.number).sort((a, b) => a - b);
  return (row.numbers ?? []).join() === numbers.join();
}
