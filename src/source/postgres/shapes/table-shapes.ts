// Reads the shapes of the selected tables from the source's catalog: columns, keys, sizes, and whether their bytes mean
// the same on another server.
// https://www.postgresql.org/docs/current/catalogs.html

import type { Client } from "pg";
import {
  type Column,
  qualifiedName,
  type Relation,
  rowHashColumn,
  type TableShape,
} from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { keyNumbersSql } from "../catalog/key-numbers.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import { TypeCatalog } from "../catalog/type-catalog.ts";
import { partsOf } from "../catalog/type-parts.ts";
import { replicaIdentityOf } from "../publication/replica-identity.ts";
import { addedValueSql, hasAddedValueSql, leafValuesJoin } from "./added-value.ts";
import type { ColumnFacts } from "./column-changes.ts";
import { leavesOf } from "./partition-leaves.ts";
import { transformedRelation } from "./row-transform.ts";

/** A shape, and the facts by which a change without an event is noticed. */
export interface SourceTable extends TableShape {
  readonly facts: readonly ColumnFacts[];
  /** Numbers of dropped columns. */
  readonly dropped: readonly number[];
  /** One of its partitions has a replica identity other than the default. */
  readonly hasOtherLeafIdentities: boolean;
  /** Its updates and deletes cannot be carried, whatever its own replica identity. */
  readonly insertsOnly: boolean;
  /** The generated columns that the catalog selects. */
  readonly generatedColumns: readonly SelectedGenerated[];
  /** Numbers of those that are sent. */
  readonly sentGenerated: readonly number[];
  /** Those that the sink had, and computed as they are here, when it was asked; absent: none. */
  readonly computedAtSink?: readonly Pick<Column, "number" | "name">[];
}

export interface SelectedGenerated {
  readonly column: Column;
  /** Without it no change says which row it is of. */
  readonly isInKey: boolean;
}

/** Whether the source sends a table's generated column. */
export type SendsGenerated = (tableId: number, number: number) => boolean;

interface TableRow {
  oid: number;
  schema: string;
  name: string;
  identity: string;
  is_partitioned: boolean;
  has_other_leaf_identities: boolean;
  estimated_rows: string;
  storage: string | null;
  estimated_bytes: string;
  columns: ColumnRow[];
  dropped: number[];
  identity_columns: string[] | null;
  primary_key: string[] | null;
  key_id: number | null;
  /** A deferrable key does not identify a row within a transaction, and cannot be a replica identity. */
  is_key_immediate: boolean;
}

interface ColumnRow {
  name: string;
  type_oid: number;
  typmod: number;
  type_name: string;
  delimiter: string | null;
  not_null: boolean;
  number: number;
  version: string;
  added_value: string | null;
  has_added_value: boolean;
  has_default: boolean;
  is_generated: boolean;
}

/** The tables that a connector keeps in a database that is its sink: they are not the user's. */
export const isBookkeeping =
  "(n.nspname = 'millrace' and (c.relname in ('checkpoint', 'table_copy', 'table_shape', 'set_aside', 'made_type', 'type_question', 'enum_label', " +
  "'table_claim', 'table_history', 'run_term', 'divided_copy', 'copied_range', 'owed_row', 'copy_beside', 'beside_range', 'held_table', 'held_change', 'unlogged_witness') or c.relname ~ '^(copy|touched|seen|model|chunk)_[A-Za-z0-9_-]+_[0-9]+$' " +
  "or c.relname ~ '^(rows|touched)_[A-Za-z0-9_-]+_[0-9]+_[0-9a-f]{8}$'))";

/**
 * The tables that hold the rows of `c`; a root itself holds none. They are looked up by OID: with an OR condition, or
 * with a join whose order the planner chooses, all of pg_class would be read for each table.
 */
const leavesSql = `(
    select c.oid where c.relkind = 'r' union all select relid from ${leavesOf("c.oid")} where c.relkind = 'p'
  ) part cross join lateral (select * from pg_class where oid = part.oid offset 0) leaf`;

/** Of a column: no row has null. From version 18 on older rows may have it, as long as the constraint is NOT VALID. */
const notNullSql = `a.attnotnull and not exists (select from pg_constraint con
      where con.conrelid = a.attrelid and con.contype = 'n' and not con.convalidated and con.conkey = array[a.attnum])`;

/**
 * Permanent tables only: leaf partitions, or their roots instead. `$1`: whether to take roots; `$2`: the OIDs of the tables; null: all.
 *
 * Files are `relfilenode`, which belongs to the statement's snapshot, as the columns do. pg_relation_filenode() would
 * show a rewrite that commits meanwhile, and the next read would find changed columns without changed files.
 */
const tablesQuery = `
select c.oid, storage.files as storage, n.nspname as schema, c.relname as name, c.relreplident as identity,
  c.relkind = 'p' as is_partitioned,
  greatest(storage.rows, 0)::int8::text as estimated_rows, coalesce(storage.bytes, 0)::text as estimated_bytes,
  columns.list as columns, columns.dropped, identity.names as identity_columns,
  (select con.oid from pg_constraint con where con.conrelid = c.oid and con.contype = 'p') as key_id,
  primary_key.names as primary_key, coalesce(primary_key.is_immediate, false) as is_key_immediate,
  storage.has_other_identities as has_other_leaf_identities
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
cross join lateral (
  select sum(leaf.reltuples) filter (where leaf.reltuples > 0) as rows, sum(leaf.relpages::int8 * 8192) as bytes,
    coalesce(bool_or(leaf.oid <> c.oid and leaf.relreplident <> 'd'), false) as has_other_identities,
    string_agg(nullif(leaf.relfilenode, 0)::text, ' ' order by leaf.oid) as files
  from ${leavesSql}
) storage
cross join lateral (
  select coalesce(json_agg(json_build_object(
    'name', a.attname, 'type_oid', a.atttypid::int8, 'typmod', a.atttypmod,
    'type_name', format_type(a.atttypid, a.atttypmod), 'delimiter', nullif(e.typdelim, ','), 'not_null', ${notNullSql},
    'number', a.attnum, 'version', a.xmin::text, 'has_added_value', ${hasAddedValueSql},
    'has_default', a.atthasdef or a.attidentity <> '', 'is_generated', a.attgenerated <> '', 'added_value', ${addedValueSql}) order by a.attnum)
      filter (where t.oid is not null), '[]') as list,
    coalesce(json_agg(a.attnum) filter (where t.oid is null), '[]') as dropped
  from pg_attribute a
  left join pg_type t on t.oid = a.atttypid and not a.attisdropped left join pg_type e on e.oid = t.typelem
  ${leafValuesJoin}
  where a.attrelid = c.oid and a.attnum > 0
) columns
left join lateral (
  select json_agg(a.attname order by k.ordinal) as names
  from pg_index i
  cross join lateral unnest(${keyNumbersSql}) with ordinality as k(attnum, ordinal)
  join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
  where i.indrelid = c.oid and i.indisreplident and i.indisvalid and i.indimmediate
) identity on c.relreplident = 'i'
left join lateral (
  select json_agg(a.attname order by k.ordinal) as names, bool_and(i.indimmediate) as is_immediate
  from pg_index i
  cross join lateral unnest(${keyNumbersSql}) with ordinality as k(attnum, ordinal)
  join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
  where i.indrelid = c.oid and i.indisprimary and i.indisvalid
) primary_key on true
where c.relpersistence = 'p'
  and n.nspname <> 'information_schema' and n.nspname !~ '^pg_' and not ${isBookkeeping}
  and ($2::oid[] is null or c.oid = any($2))
  and case when $1::bool then c.relkind in ('r', 'p') and not c.relispartition else c.relkind = 'r' end
order by n.nspname, c.relname`;

/**
 * The selected tables with their selected columns; `among`: only tables with these OIDs.
 *
 * The client's search_path must be empty, so that type names are schema-qualified. Throws `invalid_request` when the
 * selection excludes a column of a primary key or of a replica identity.
 */
export async function readTableShapes(
  client: Client,
  selection: TableSelection,
  partitionsAsRoot: boolean,
  among: readonly number[] | null = null,
  sendsGenerated: SendsGenerated = () => false,
): Promise<readonly SourceTable[]> {
  const { rows } = await client.query<TableRow>(tablesQuery, [partitionsAsRoot, among]);
  const selected = rows.filter((row) => selection.includesTable(row.schema, row.name));
  const types = await TypeCatalog.read(
    client,
    selected.flatMap((row) => row.columns.map((column) => column.type_oid)),
  );
  return selected.map((row) => shapeOf(row, selection, types, sendsGenerated));
}

/** The present files, even in an older snapshot: what that sees may have been rewritten since. */
const storageQuery = `
select coalesce(string_agg(pg_relation_filenode(leaf.oid)::text, ' ' order by leaf.oid), '') as files
from pg_class c left join lateral (select leaf.oid from ${leavesSql}) leaf on true
where c.oid = $1
group by c.oid`;

/** The files that now hold the table's rows; empty for a root without partitions, null when the table is gone. */
export async function readStorage(client: Client, tableId: number): Promise<string | null> {
  const { rows } = await client.query<{ files: string }>(storageQuery, [tableId]);
  return rows[0]?.files ?? null;
}

function shapeOf(
  row: TableRow,
  selection: TableSelection,
  types: TypeCatalog,
  sendsGenerated: SendsGenerated,
): SourceTable {
  const sent = row.columns.filter((column) => !column.is_generated || sendsGenerated(row.oid, column.number));
  const isSelected = ({ name }: ColumnRow) => selection.includesColumn(row.schema, row.name, name);
  const columns = sent.filter(isSelected);
  const isSent = (names: readonly string[]) =>
    names.every((name) => sent.some((column) => column.name === name));
  const primaryKey = isSent(row.primary_key ?? []) ? (row.primary_key ?? []) : [];
  // Without a generated column that is not sent the other key columns identify no row.
  const key = isSent(keyColumns(row)) ? keyColumns(row) : [];
  requireKey(row, columns, primaryKey, "primary key");
  requireKey(row, columns, key, "replica identity");
  const relation: Relation = {
    id: row.oid,
    schema: row.schema,
    name: row.name,
    replicaIdentity: replicaIdentityOf(row.identity),
    columns: columns.map((column) => columnOf(column, types)),
    key: columns.flatMap((column, i) => (key.includes(column.name) ? [i] : [])),
    ...(row.key_id === null ? {} : { keyId: row.key_id }),
    withheld: withheld(row, columns),
  };
  const transformed = transformedRelation(relation, selection, relation.key.length === 0);
  const hashed = selection.hashedColumns(row.schema, row.name);
  return {
    relation: transformed,
    primaryKey: transformed.isKeyedByHash ? [rowHashColumn] : primaryKey,
    notNull: [
      ...columns.filter((column) => column.not_null).map((column) => column.name),
      ...(transformed.isKeyedByHash ? [rowHashColumn] : []),
    ],
    isPartitioned: row.is_partitioned,
    estimatedRows: Number(row.estimated_rows ?? 0),
    estimatedBytes: Number(row.estimated_bytes ?? 0),
    storage: row.storage ?? "",
    ...(key.some((name) => hashed.includes(name)) ? { isKeyHashed: true as const } : {}),
    coverage: {
      excluded: sent.filter((column) => !isSelected(column)).map(({ name }) => name),
      isListed: false,
      isUnpublished: false,
    },
    insertsOnly: false,
    generatedColumns: row.columns
      .filter((column) => column.is_generated && isSelected(column))
      .map((column) => ({
        column: columnOf(column, types),
        isInKey: [...(row.primary_key ?? []), ...keyColumns(row)].includes(column.name),
      })),
    sentGenerated: columns.filter((column) => column.is_generated).map(({ number }) => number),
    hasOtherLeafIdentities: row.has_other_leaf_identities,
    facts: columns.map((column) => ({
      number: column.number,
      name: column.name,
      version: column.version,
      hasAddedValue: column.has_added_value,
      ...(column.has_default ? { hasDefault: true as const } : {}),
      ...(column.has_added_value && column.added_value === null ? { isValueUnclear: true as const } : {}),
      ...partsOfType(types.of(column.type_oid)),
      ...(transformed.isKeyedByHash || hashed.includes(column.name) ? { hashedType: column.type_oid } : {}),
    })),
    dropped: row.dropped,
  };
}

function columnOf(column: ColumnRow, types: TypeCatalog): Column {
  return {
    name: column.name,
    number: column.number,
    typeOid: column.type_oid,
    typmod: column.typmod,
    typeName: column.type_name,
    ...types.of(column.type_oid),
    addedValue: column.added_value,
    ...(column.delimiter === null ? {} : { arrayDelimiter: column.delimiter }),
    ...(column.is_generated ? { isGenerated: true as const } : {}),
  };
}

function partsOfType({ typeDefinitions }: Pick<Column, "typeDefinitions">): Pick<ColumnFacts, "parts"> {
  return typeDefinitions ? { parts: partsOf(typeDefinitions) } : {};
}

/** Without these columns a change does not identify its row. */
function requireKey(
  row: TableRow,
  columns: readonly ColumnRow[],
  key: readonly string[],
  what: string,
): void {
  const missing = key.find((name) => !columns.some((column) => column.name === name));
  if (missing === undefined) return;
  throw new MillraceError(
    "invalid_request",
    `The catalog excludes column ${missing}, which is part of the ${what} of ${qualifiedName(row)}: include it.`,
  );
}

function withheld(row: TableRow, carried: readonly ColumnRow[]): readonly number[] {
  return row.columns.filter((column) => !carried.includes(column)).map(({ number }) => number);
}

/**
 * Names of the columns that identify a row: those that Postgres uses for UPDATE and DELETE, or the primary key under
 * identity full.
 */
function keyColumns(row: TableRow): readonly string[] {
  switch (row.identity) {
    case "i":
      return row.identity_columns ?? [];
    case "n":
      return [];
    default:
      return row.is_key_immediate ? (row.primary_key ?? []) : [];
  }
}
