// Completes relations that the stream announced with what only the catalog knows. It is asked as it is now, which is later
// than the announcement: what is taken from it holds at any time, like a column's number, or is told of types.

import type { Client } from "pg";
import type { Lsn } from "../../../change/lsn.ts";
import type { Column, Relation } from "../../../change/relation.ts";
import { TypeCatalog } from "../catalog/type-catalog.ts";
import { addedValueSql, leafValuesJoin } from "./added-value.ts";
import type { ColumnHistory } from "./column-history.ts";
import { type NumberedColumn, numberColumns } from "./column-numbers.ts";

interface TableRow {
  readonly id: number;
  readonly primary_key: readonly string[] | null;
  readonly key_id: number | null;
  /** Columns of the primary key, or of the replica identity, that the table computes. */
  readonly computed_key: readonly string[] | null;
  readonly columns: readonly CatalogColumn[];
}

interface CatalogColumn {
  readonly number: number;
  readonly name: string;
  readonly typeOid: number;
  readonly isDropped: boolean;
  readonly isGenerated: boolean;
  readonly addedValue: string | null;
  readonly version: string;
  readonly length: number | null;
}

/** A shape of a table, and the place in the stream from which on the table had it, or a later one. */
export interface Met {
  readonly relation: Relation;
  /** Of the commit record of a transaction, or of a message. */
  readonly at: Lsn;
}

/** A relation as the stream announced it. */
export interface Announced extends Met {
  /** The transaction, as the stream numbers it. */
  readonly xid: number;
}

/** What else tells which columns a table had. */
export interface ShapeEvidence {
  history(tableId: number, at: Lsn): ColumnHistory;
  /** Whether the source may leave a column out that was called so; null: whatever it was called. */
  mayWithhold(relation: Relation, name: string | null): boolean;
  /** Whether the catalog shows what the transactions in question did to it. */
  readonly isComplete: boolean;
  /** Told of each relation before the next is looked at. */
  meet(described: Met): void;
}

type TypeFacts = Pick<
  Column,
  "typeName" | "binaryLayout" | "arrayDelimiter" | "domainBase" | "typeDefinitions"
>;

interface SentType {
  /** Null: the type is gone. */
  readonly name: string | null;
  readonly delimiter: string | null;
  readonly length: number | null;
}

/** What the catalog says of the types that were announced. */
interface SentTypes {
  describe(column: Column): TypeFacts;
  lengthOf(column: Column): number | null;
}

const tablesQuery = `
select c.oid as id, key.names as primary_key,
  (select con.oid from pg_constraint con where con.conrelid = c.oid and con.contype = 'p') as key_id, computed.names as computed_key, columns.list as columns
from pg_class c
cross join lateral (
  select coalesce(json_agg(json_build_object('number', a.attnum, 'name', a.attname, 'typeOid', a.atttypid::int8,
    'isDropped', a.attisdropped, 'version', a.xmin::text, 'length', a.attlen, 'isGenerated', a.attgenerated <> '',
    'addedValue', ${addedValueSql}) order by a.attnum), '[]') as list
  from pg_attribute a ${leafValuesJoin}
  where a.attrelid = c.oid and a.attnum > 0
) columns
left join lateral (
  select json_agg(a.attname) as names
  from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey::int2[])
  where i.indrelid = c.oid and i.indisprimary and i.indisvalid and i.indimmediate
) key on true
left join lateral (
  select json_agg(a.attname) as names
  from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey::int2[])
  where i.indrelid = c.oid and (i.indisprimary or i.indisreplident) and a.attgenerated <> ''
) computed on true
where c.oid = any($1::oid[])`;

const typeNamesQuery = `
select case when t.oid is not null then format_type(c.type_oid, c.typmod) end as name, nullif(e.typdelim, ',') as delimiter, t.typlen as length
from unnest($1::oid[], $2::int4[]) with ordinality as c(type_oid, typmod, place)
left join pg_type t on t.oid = c.type_oid left join pg_type e on e.oid = t.typelem
order by c.place`;

/** The relations in their order. The client's search_path must be empty, so that type names are qualified. */
export async function describeRelations(
  client: Client,
  announced: readonly Announced[],
  evidence: ShapeEvidence,
): Promise<readonly Relation[]> {
  const { rows } = await client.query<TableRow>(tablesQuery, [announced.map(({ relation }) => relation.id)]);
  const tables = new Map(rows.map((row) => [row.id, row]));
  const types = await readTypes(
    client,
    announced.flatMap(({ relation }) => relation.columns),
  );
  return announced.map((each) => {
    const described = withCatalog(each, tables.get(each.relation.id), evidence, types);
    evidence.meet({ relation: described, at: each.at });
    return described;
  });
}

function withCatalog(
  { relation, at }: Announced,
  table: TableRow | undefined,
  evidence: ShapeEvidence,
  types: SentTypes,
): Relation {
  const history = evidence.history(relation.id, at);
  // Of a table that is gone only its history tells.
  const catalog = table?.columns ?? history.numbers.map(columnThatWas);
  const mayWithhold = (name: string | null) => evidence.mayWithhold(relation, name);
  const sent = relation.columns.map((column) => ({ ...column, length: types.lengthOf(column) }));
  const known = withHistory(catalog, history, mayWithhold);
  const { numbers, isGuess } = numberColumns(sent, known);
  const columns = relation.columns.map((column, i) => ({
    ...column,
    ...types.describe(column),
    number: numbers[i] ?? 0,
    addedValue: catalog.find(({ number }) => number === numbers[i])?.addedValue ?? null,
  }));
  // What was not sent, and could not be withheld, was not there yet: taken for a column of then, it would have to be sent next.
  const unborn = known.filter(({ isNew, mayBeWithheld }) => isNew && !mayBeWithheld);
  const absent = new Set([...numbers, ...unborn.map(({ number }) => number)]);
  const isWithheld = ({ number, isDropped }: CatalogColumn) => !isDropped && !absent.has(number);
  // A column that is computed does not travel, unless it is published, and without it the others identify no row.
  const isKeySent = (table?.computed_key ?? []).every((name) =>
    columns.some((column) => column.name === name),
  );
  const primaryKey = table?.primary_key ?? [];
  return {
    ...relation,
    ...(isGuess || !evidence.isComplete ? { isGuess: true as const } : {}),
    ...(table === undefined ? { isGone: true as const } : {}),
    ...(table?.key_id ? { keyId: table.key_id } : {}),
    columns,
    withheld: catalog.filter(isWithheld).map(({ number }) => number),
    // Under identity full the announcement does not tell the key.
    key: !isKeySent
      ? []
      : relation.replicaIdentity === "full"
        ? columns.flatMap((column, i) => (primaryKey.includes(column.name) ? [i] : []))
        : relation.key,
  };
}

function columnThatWas(number: number): CatalogColumn {
  return {
    number,
    name: "",
    typeOid: 0,
    isDropped: true,
    isGenerated: false,
    addedValue: null,
    version: "",
    length: null,
  };
}

function withHistory(
  catalog: readonly CatalogColumn[],
  history: ColumnHistory,
  mayWithhold: (name: string | null) => boolean,
): readonly NumberedColumn[] {
  const present = catalog.filter(({ number }) => !history.isGone(number));
  return present.map((column) => {
    const formerNames = history.formerNames(column.number);
    // Looks pass over columns that are computed. They are so from the beginning: none can have been another one's.
    const isNew = !column.isGenerated && history.isNew(column.number);
    const isSteady = column.isGenerated || history.isSteady(column.number, column.version);
    // One that has been carried and was left out for a while has missed changes: that it was sent is not to be explained away.
    const names = isSteady ? [column.name] : [column.name, ...formerNames, ...(isNew ? [null] : [])];
    const mayBeWithheld = column.isGenerated || names.some(mayWithhold);
    return { ...column, formerNames, isNew, isSteady, mayBeWithheld };
  });
}

async function readTypes(client: Client, columns: readonly Column[]): Promise<SentTypes> {
  const { rows } = await client.query<SentType>(typeNamesQuery, [
    columns.map(({ typeOid }) => typeOid),
    columns.map(({ typmod }) => typmod),
  ]);
  const catalog = await TypeCatalog.read(
    client,
    columns.map(({ typeOid }) => typeOid),
  );
  const types = new Map(columns.map((column, i) => [`${column.typeOid} ${column.typmod}`, rows[i]]));
  const find = ({ typeOid, typmod }: Column) => types.get(`${typeOid} ${typmod}`);
  return {
    lengthOf: (column) => find(column)?.length ?? null,
    describe: (column) => {
      const { name, delimiter = null } = find(column) ?? {};
      return {
        // As which the values of a type that was dropped since can be held until the column goes, or is given another.
        typeName: name ?? "text",
        ...catalog.of(column.typeOid),
        ...(delimiter === null ? {} : { arrayDelimiter: delimiter }),
      };
    },
  };
}
