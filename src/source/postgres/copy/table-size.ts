// Decides whether a table can be copied in ranges of its pages, and reads its size in a session that uses the copy's
// snapshot.
// https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-ADMIN-DBSIZE

import type { Client } from "pg";
import type { TableSize } from "../../../change/page-range.ts";
import type { Relation, TableShape } from "../../../change/relation.ts";
import { keyNumbersSql } from "../catalog/key-numbers.ts";
import { replicaIdentityOf } from "../publication/replica-identity.ts";

/** Only heap tables can be read by page address. A table that is gone has no row. */
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
 * Whether ranges of the table's pages may be copied as of different points. Rows move between pages, so they need an
 * identity, and the source must be able to find a row that is in none of the ranges.
 */
export function hasRanges({ relation, isPartitioned, isKeyHashed }: TableShape): boolean {
  const isKeyed = relation.keyId !== undefined && isKeyedByPrimary(relation);
  return isKeyed && !isPartitioned && isKeyHashed !== true;
}

function isKeyedByPrimary({ replicaIdentity, key, isKeyedByHash }: Relation): boolean {
  const isPrimary = replicaIdentity === "default" || replicaIdentity === "full";
  return isPrimary && key.length > 0 && isKeyedByHash !== true;
}

const keyQuery = `
select (select con.oid from pg_constraint con where con.conrelid = c.oid and con.contype = 'p')::int8::float8 as "keyId",
  c.relreplident as identity,
  (select json_agg(numbers.n order by numbers.n) from pg_index i, unnest(${keyNumbersSql}) as numbers(n)
    where i.indrelid = c.oid and i.indisreplident) as numbers
from pg_class c where c.oid = $1`;

interface KeyRow {
  readonly keyId: number | null;
  /** `pg_class.relreplident`. */
  readonly identity: string;
  /** Column numbers of the replica identity's index in ascending order, where one was chosen. */
  readonly numbers: readonly number[] | null;
}

/** Whether the table's identity and key are, in the copy's snapshot, those of its shape. */
export async function hasSameKey(client: Client, { relation }: TableShape): Promise<boolean> {
  const { rows } = await client.query<KeyRow>(keyQuery, [relation.id]);
  const [row] = rows;
  if (!row || replicaIdentityOf(row.identity) !== relation.replicaIdentity) return false;
  if (relation.replicaIdentity !== "index") return row.keyId === relation.keyId;
  const numbers = relation.key.map((i) => relation.columns[i]!.number).sort((a, b) => a - b);
  return (row.numbers ?? []).join() === numbers.join();
}
