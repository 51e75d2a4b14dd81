// Every value of every type in tables of a real server, as the texts that the stream brings.

import type { Column, Relation } from "../../src/change/relation.ts";
import type { DataTypeOptions } from "../../src/sink/format/debezium/debezium-column.ts";
import { relation } from "../support/rows/batch-fixture.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { ownTypesSql } from "./own-cases.ts";
import { quoted, type TortureTable, tortureTables } from "./torture-tables.ts";

const major = 18;
/** Each mode of each option once, and what they are together by default. */
export const dataTypeModes: readonly DataTypeOptions[] = [
  ["Bytes", "Precise", "Adaptive"],
  ["Base64", "Double", "AdaptiveTimeMicroseconds"],
  ["Base64UrlSafe", "String", "Connect"],
  ["Hex", "Precise", "IsoString"],
  ["Bytes", "Double", "Microseconds"],
  ["Bytes", "String", "Nanoseconds"],
].map(([binary, decimal, time]) => ({
  binary_handling_mode: binary as DataTypeOptions["binary_handling_mode"],
  decimal_handling_mode: decimal as DataTypeOptions["decimal_handling_mode"],
  time_precision_mode: time as DataTypeOptions["time_precision_mode"],
}));

export interface StoredTable {
  readonly table: TortureTable;
  readonly relation: Relation;
  /** Texts as the stream brings them. */
  readonly rows: readonly (string | null)[][];
  /** Of arrays: the elements' texts. */
  readonly elements: readonly (string | null)[][];
}

export async function storedTables(): Promise<readonly StoredTable[]> {
  await using server = await PostgresServer.start({ major, settings: { fsync: "off" } });
  await using client = await server.connect("postgres");
  await client.query(
    `set datestyle = iso; set intervalstyle = postgres; set timezone = 'UTC'; set extra_float_digits = 3; set lc_monetary = 'C';
     create schema torture; create table statistics_of (a int, b int);
     create statistics s (ndistinct, dependencies, mcv) on a, b from statistics_of;
     insert into statistics_of select i % 3, i % 3 from generate_series(1, 100) i; analyze statistics_of; ${ownTypesSql}`,
  );
  const tables = tortureTables({ source: major, sink: major, binaryOnly: false });
  const own = tables.filter(({ path }) => /\/t\d+$/.test(path));
  return await Promise.all(
    own.map(async (table) => {
      await client.query(`${table.createSql} ${table.copiedSql}`);
      const { rows: columns } = await client.query<Column>(columnsSql(table));
      const texts = await client.query<{ texts: string[]; elements: string[] }>(textsSql(table));
      return {
        table,
        relation: { ...relation("t", [], { key: [] }), columns: columns.map(asColumn) },
        rows: texts.rows.map((row) => row.texts),
        elements: texts.rows.map((row) => row.elements),
      };
    }),
  );
}

/** Columns, with the types that domains stand for. */
function columnsSql({ sqlName, columns }: TortureTable): string {
  const names = columns.map(({ name }) => `'${name.replaceAll("'", "''")}'`).join(", ");
  return `
    with recursive under as (
      select a.attnum, a.attname as name, a.atttypid as oid, a.atttypmod as typmod
      from pg_attribute a where a.attrelid = '${sqlName}'::regclass and a.attname in (${names})
      union all
      select u.attnum, u.name, t.typbasetype, t.typtypmod from under u join pg_type t on t.oid = u.oid where t.typtype = 'd'
    )
    select distinct on (attnum) name, oid::int8::int as "typeOid", typmod, format_type(oid, typmod) as "typeName",
      (select e.typdelim from pg_type e join pg_type t on t.typelem = e.oid where t.oid = u.oid and e.typdelim <> ',') as "arrayDelimiter"
    from under u order by attnum, (select typtype = 'd' from pg_type where oid = u.oid)`;
}

function asColumn(column: Column): Column {
  const { arrayDelimiter, ...rest } = column;
  const delimiter = arrayDelimiter ? { arrayDelimiter } : {};
  return { ...rest, ...delimiter, number: 0, binaryLayout: "same", addedValue: null };
}

function textsSql({ sqlName, columns }: TortureTable): string {
  const texts = columns.map(({ name }) => {
    const column = quoted(name);
    return `case when ${column} is distinct from null then format('%s', ${column}) end`;
  });
  const elements = columns.map(({ name, isArray, type }) => {
    if (!isArray) return "null";
    const isPlain = !/box\[\]$|\.semi\[\]$|\.boxes(\[\])?$/.test(type);
    const column = quoted(name);
    const texts = `array_to_json(${isPlain ? `format('%s', ${column})` : column}::text[])::text`;
    return `case when ${column} is distinct from null then ${texts} end`;
  });
  return `select array[${texts}]::text[] as texts, array[${elements}]::text[] as elements from ${sqlName} order by id`;
}
