// Creates targets like the source's tables. table-migration.ts plans how existing ones change.

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import { type Column, isIdentified, keyNames, type TableShape } from "../../../change/relation.ts";
import { BinaryLayouts, firstUnpinnedOid } from "../../../connection/binary-layout.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { computedCommentSql, computedSql } from "../generated/computed-column.ts";
import type { AddKey } from "./migration/key-migration.ts";
import { nameTaken } from "./taken-name.ts";
import { sqlList, type TargetName } from "./target-name.ts";
import { ownKeyComment } from "./target-table.ts";

/**
 * Creates missing schemas, before several sessions create tables: two sessions that create the same schema would block each other, and one
 * would fail.
 */
export async function createSchemas(client: Client, schemas: ReadonlySet<string>): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "select name from unnest($1::text[]) as s(name) where not exists (select from pg_namespace where nspname = name)",
    [[...schemas]],
  );
  for (const { name } of rows) await client.query(`create schema if not exists ${escapeIdentifier(name)}`);
}

/**
 * Creates the table with the source's types, with the columns that the sink computes, and without a key. A type that the sink lacks becomes text. Throws `sink_schema_mismatch` if
 * something other than a table has the name.
 */
export async function createTable(client: Client, target: TargetName, shape: TableShape): Promise<void> {
  const taken = await nameTaken(client, target);
  if (taken) throw taken;
  await createSchemas(client, new Set([target.schema]));
  const { relation, generated = [] } = shape;
  const types = await resolveTypes(client, relation.columns);
  const columns = relation.columns.map(({ name, number }, i) => {
    const notNull = shape.notNull.includes(name) ? " not null" : "";
    return { number, sql: `${escapeIdentifier(name)} ${types[i]!.name}${notNull}` };
  });
  for (const computed of generated) {
    const { number, typeName } = computed.column;
    const behind = columns.findIndex((column) => column.number > number || column.number < 0);
    columns.splice(behind < 0 ? columns.length : behind, 0, { number, sql: computedSql(computed, typeName) });
  }
  await client.query(`create table ${sqlName(target)} (${columns.map(({ sql }) => sql).join(", ")})`);
  for (const computed of generated) await client.query(computedCommentSql(target, computed));
}

/**
 * Adds the primary key, or instead the unique index that identifies rows. A table that carries only inserts gets neither: a key may come again
 * after its row was deleted at the source.
 */
export async function addKeyOf(client: Client, target: TargetName, shape: TableShape): Promise<void> {
  const { relation, primaryKey } = shape;
  if (!isIdentified(relation) && !relation.isKeyedByHash) return;
  const key = keyNames(relation);
  const isPrimary = primaryKey.length > 0 && primaryKey.every((name) => key.includes(name));
  if (isPrimary) await addKey(client, target, { key: primaryKey, isPrimary });
  else if (key.length > 0) await addKey(client, target, { key, isPrimary });
}

const newIndexQuery = `
select c.relname as name from pg_index i join pg_class c on c.oid = i.indexrelid
where i.indrelid = to_regclass($1) and i.indisunique and $2 = array(
  select a.attname::text from pg_attribute a where a.attrelid = c.oid order by a.attnum)
order by i.indexrelid::int8 desc limit 1`;

export function addKeySql(target: TargetName, { key, isPrimary }: Pick<AddKey, "key" | "isPrimary">): string {
  return isPrimary
    ? `alter table ${sqlName(target)} add primary key (${sqlList(key)})`
    : `create unique index on ${sqlName(target)} (${sqlList(key)})`;
}

/** For the transaction: sorts a large table's keys in memory, if the server's own setting is smaller. */
const sortRoomSql = `select set_config('maintenance_work_mem', '256MB', true)
where pg_size_bytes(current_setting('maintenance_work_mem')) < pg_size_bytes('256MB')`;

/** Adds a key, with a comment that marks it as ours. The server chooses a free name. */
export async function addKey(
  client: Client,
  target: TargetName,
  key: Pick<AddKey, "key" | "isPrimary">,
): Promise<void> {
  await client.query(sortRoomSql);
  await client.query(addKeySql(target, key));
  const { rows } = await client.query<{ name: string }>(newIndexQuery, [sqlName(target), key.key]);
  const index = { schema: target.schema, name: rows[0]?.name ?? "" };
  await client.query(`comment on index ${sqlName(index)} is ${escapeLiteral(ownKeyComment)}`);
}

/** Types that take no input: gtsvector, pg_node_tree, pg_ndistinct, pg_dependencies, pg_mcv_list, pg_brin_*_summary. */
const withoutInput: readonly number[] = [3642, 3644, 194, 3361, 3402, 5017, 4600, 4601];

interface SinkType {
  /** As SQL. */
  readonly name: string;
  readonly oid: number;
}

/** Before version 15 a numeric's scale (11 bits of its modifier) must be from 0 to its precision. Otherwise the modifier is left out. */
const resolveTypesSql = `
select coalesce(case when t.oid is null then null when c.oid >= $4 then c.name
    when c.oid in (1700, 1231) and current_setting('server_version_num')::int4 < 150000
      and ((c.typmod - 4) & 2047) > (((c.typmod - 4) >> 16) & 65535) then format_type(t.oid, -1)
    else format_type(t.oid, c.typmod) end, 'text') as name, coalesce(t.oid, 'text'::regtype) as oid
from unnest($1::oid[], $2::int4[], $3::text[]) with ordinality as c(oid, typmod, name, place)
left join pg_type t on t.oid = case when c.oid < $4 then c.oid else to_regtype(c.name) end and t.oid <> all ($5::oid[])
order by c.place`;

/** The columns' types at the sink: the source's type if the sink has it and it takes input, otherwise text. */
export async function resolveTypes(client: Client, columns: readonly Column[]): Promise<readonly SinkType[]> {
  const { rows } = await client.query<SinkType>(resolveTypesSql, [
    columns.map((column) => column.typeOid),
    columns.map((column) => column.typmod),
    columns.map((column) => column.typeName),
    firstUnpinnedOid,
    withoutInput,
  ]);
  return rows;
}

/** Those columns that take the source's binary values once they are created at the sink. */
export async function columnsThatFit(
  client: Client,
  columns: readonly Column[],
): Promise<ReadonlySet<Column>> {
  const typeOf = ({ typeOid, typmod, typeName }: Column) => `${typeOid} ${typmod} ${typeName}`;
  const distinct = new Map(columns.map((column) => [typeOf(column), column]));
  const types = await resolveTypes(client, [...distinct.values()]);
  const layouts = await BinaryLayouts.read(
    client,
    types.map((type) => type.oid),
  );
  const made = new Map([...distinct.keys()].map((type, i) => [type, layouts.of(types[i]!.oid)]));
  const fits = (column: Column) =>
    column.binaryLayout !== null && made.get(typeOf(column)) === column.binaryLayout;
  return new Set(columns.filter(fits));
}
