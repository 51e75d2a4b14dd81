// Completes announced relations with what only the catalog knows. The catalog is read later than the announcement, so
// only facts that do not change are taken from it, like a column's number, or facts about types.

import type { Client } from "pg";
import type { Lsn } from "../../../change/lsn.ts";
import { type Column, qualifiedName, type Relation } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { keyNumbersSql } from "../catalog/key-numbers.ts";
import { TypeCatalog } from "../catalog/type-catalog.ts";
import { addedValueSql, leafValuesJoin } from "./added-value.ts";
import type { ColumnHistory } from "./column-history.ts";
import { type NumberedColumn, numberColumns } from "./column-numbers.ts";

interface TableRow {
  readonly id: number;
  /** Numbers of columns, as names may be others by now. */
  readonly primary_key: readonly number[] | null;
  readonly key_id: number | null;
  /** Generated columns of the primary key or of the replica identity. */
  readonly computed_key: readonly number[] | null;
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

/** A shape of a table, and the LSN from which the table had it, or a later one. */
export interface StreamedShape {
  readonly relation: Relation;
  /** Of a transaction's commit record, or of a message. */
  readonly at: Lsn;
}

/** A relation as the stream announced it. */
export interface Announced extends StreamedShape {
  /** The transaction's xid, as in the stream. */
  readonly xid: number;
  /** Names of columns that it has and `relation` lacks, as they counted as generated. */
  readonly leftOut: readonly string[];
}

/** Other evidence of which columns a table had. */
export interface ShapeEvidence {
  history(tableId: number, at: Lsn): ColumnHistory;
  /** Whether the source may exclude a column of this name; null: of any name. */
  mayWithhold(relation: Relation, name: string | null): boolean;
  /** Whether the catalog shows what the announcing transactions did to it. */
  readonly isComplete: boolean;
  /** Called with each generated column that was sent. Throws `table_changed` where it must not be handed out. */
  checkGenerated(relation: Relation, number: number, name: string): void;
  /** Called with each described relation, before the next one is described. */
  add(described: StreamedShape): void;
}

type TypeFacts = Pick<
  Column,
  "typeName" | "binaryLayout" | "arrayDelimiter" | "domainBase" | "typeDefinitions"
>;

interface SentType {
  /** Null: the type no longer exists. */
  readonly name: string | null;
  readonly delimiter: string | null;
  readonly length: number | null;
}

/** What the catalog says of the announced types. */
interface SentTypes {
  describe(column: Column): TypeFacts;
  lengthOf(column: Column): number | null;
}

const tablesQuery = `
select c.oid as id, key.numbers as primary_key,
  (select con.oid from pg_constraint con where con.conrelid = c.oid and con.contype = 'p') as key_id, computed.numbers as computed_key, columns.list as columns
from pg_class c
cross join lateral (
  select coalesce(json_agg(json_build_object('number', a.attnum, 'name', a.attname, 'typeOid', a.atttypid::int8,
    'isDropped', a.attisdropped, 'version', a.xmin::text, 'length', a.attlen, 'isGenerated', a.attgenerated <> '',
    'addedValue', ${addedValueSql}) order by a.attnum), '[]') as list
  from pg_attribute a ${leafValuesJoin}
  where a.attrelid = c.oid and a.attnum > 0
) columns
left join lateral (
  select json_agg(a.attnum) as numbers
  from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(${keyNumbersSql})
  where i.indrelid = c.oid and i.indisprimary and i.indisvalid and i.indimmediate
) key on true
left join lateral (
  select json_agg(a.attnum) as numbers
  from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(${keyNumbersSql})
  where i.indrelid = c.oid and (i.indisprimary or i.indisreplident) and a.attgenerated <> ''
) computed on true
where c.oid = any($1::oid[])`;

const typeNamesQuery = `
select case when t.oid is not null then format_type(c.type_oid, c.typmod) end as name, nullif(e.typdelim, ',') as delimiter, t.typlen as length
from unnest($1::oid[], $2::int4[]) with ordinality as c(type_oid, typmod, ordinal)
left join pg_type t on t.oid = c.type_oid left join pg_type e on e.oid = t.typelem
order by c.ordinal`;

/**
 * The described relations, in order. The client's search_path must be empty, so that type names are schema-qualified.
 */
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
    evidence.add({ relation: described, at: each.at });
    return described;
  });
}

function withCatalog(
  { relation, at, leftOut }: Announced,
  table: TableRow | undefined,
  evidence: ShapeEvidence,
  types: SentTypes,
): Relation {
  const history = evidence.history(relation.id, at);
  // A table that is gone is known by its history only.
  const catalog = table?.columns ?? history.numbers.map(droppedColumn);
  const mayWithhold = (name: string | null) => evidence.mayWithhold(relation, name);
  const sent = relation.columns.map((column) => ({ ...column, length: types.lengthOf(column) }));
  const known = withHistory(catalog, history, mayWithhold);
  const { numbers, isGuess } = numberColumns(sent, known);
  requireOrdinaryKept(relation, leftOut, catalog);
  const generated = new Set(catalog.flatMap(({ isGenerated, number }) => (isGenerated ? number : [])));
  relation.columns.forEach(({ name }, i) => {
    if (generated.has(numbers[i] ?? 0)) evidence.checkGenerated(relation, numbers[i] ?? 0, name);
  });
  const columns = relation.columns.map((column, i) => ({
    ...column,
    ...types.describe(column),
    number: numbers[i] ?? 0,
    addedValue: catalog.find(({ number }) => number === numbers[i])?.addedValue ?? null,
  }));
  // A column that was not sent and could not be withheld did not exist yet, nor did any of a higher number. Counted as
  // withheld, they would seem to have existed.
  const isMissing = ({ number, isNew, mayBeWithheld }: NumberedColumn) =>
    isNew && !mayBeWithheld && !numbers.includes(number);
  const firstMissing = known.findIndex(isMissing);
  const notYetAdded = firstMissing < 0 ? [] : known.slice(firstMissing);
  const absent = new Set([...numbers, ...notYetAdded.map(({ number }) => number)]);
  const isWithheld = ({ number, isDropped }: CatalogColumn) => !isDropped && !absent.has(number);
  // A generated column is not sent unless it is published, and without it the other key columns identify no row.
  const isKeySent = (table?.computed_key ?? []).every((number) => columns.some(isOneOf([number], catalog)));
  const isInKey = isOneOf(table?.primary_key ?? [], catalog);
  return {
    ...relation,
    ...(isGuess || !evidence.isComplete ? { isGuess: true as const } : {}),
    ...(table === undefined ? { isGone: true as const } : {}),
    ...(table?.key_id ? { keyId: table.key_id } : {}),
    columns,
    withheld: catalog.filter(isWithheld).map(({ number }) => number),
    // Under identity full the announcement does not contain the key.
    key: !isKeySent
      ? []
      : relation.replicaIdentity === "full"
        ? columns.flatMap((column, i) => (isInKey(column) ? [i] : []))
        : relation.key,
  };
}

/** Whether a column is one of `key`. Where its number is not known, the present name tells. */
function isOneOf(
  key: readonly number[],
  catalog: readonly CatalogColumn[],
): (column: Pick<Column, "number" | "name">) => boolean {
  const names = catalog.flatMap((column) => (key.includes(column.number) ? [column.name] : []));
  return ({ number, name }) => (number === 0 ? names.includes(name) : key.includes(number));
}

/** Throws `table_changed` where an ordinary column has the name of one that was left out: the next run keeps it. */
function requireOrdinaryKept(
  relation: Relation,
  leftOut: readonly string[],
  catalog: readonly CatalogColumn[],
): void {
  const isOrdinary = ({ isDropped, isGenerated }: CatalogColumn) => !isDropped && !isGenerated;
  const ordinary = catalog.find((column) => isOrdinary(column) && leftOut.includes(column.name));
  if (ordinary === undefined) return;
  throw new MillraceError(
    "table_changed",
    `Column ${ordinary.name} of ${qualifiedName(relation)} is no longer generated, or is another one: the run begins again.`,
  );
}

function droppedColumn(number: number): CatalogColumn {
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
    // Nothing is remembered of a generated column that was never sent. It is generated from the beginning, so it cannot
    // have had another column's name.
    const isUnknown = column.isGenerated && formerNames.length === 0;
    const isNew = !isUnknown && history.isNew(column.number);
    const isUnchanged = isUnknown || history.isUnchanged(column.number, column.version);
    // A column that was carried before and excluded for a while has missed changes: that must not count as merely
    // withheld.
    const names = isUnchanged ? [column.name] : [column.name, ...formerNames, ...(isNew ? [null] : [])];
    const mayBeWithheld = column.isGenerated || names.some(mayWithhold);
    return { ...column, formerNames, isNew, isUnchanged, mayBeWithheld };
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
        // Values of a type that was dropped since are kept as text, until the column goes or gets another type.
        typeName: name ?? "text",
        ...catalog.of(column.typeOid),
        ...(delimiter === null ? {} : { arrayDelimiter: delimiter }),
      };
    },
  };
}
