// The oracle of most tests: the sink equals the source, table by table, row by row of their text; of columns that are hashed
// on their way, row by row of their hashes.

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import type { Catalog } from "../../../src/connector/config/catalog.ts";
import {
  excludedColumns,
  hashedColumns,
  selectTable,
} from "../../../src/connector/config/catalog-selection.ts";

/** What a source carries, as far as it decides what the sink has. */
export interface Carried {
  /** Absent: everything. */
  readonly catalog?: Catalog;
  readonly partitions_as_root?: boolean;
}

/** Permanent tables of `source` whose rows are others in `sink`, compared as text, by name. */
export async function tableDifferences(
  source: Client,
  sink: Client,
  { catalog, partitions_as_root: isAsRoot = false }: Carried = {},
): Promise<object> {
  const { rows: tables } = await source.query<{
    name: string;
    schema: string;
    table: string;
    columns: string[];
  }>(
    `select c.oid::regclass::text as name, c.relnamespace::regnamespace::text as schema, c.relname as table,
       coalesce(json_agg(a.attname order by a.attnum) filter (where a.attname is not null), '[]') as columns
     from pg_class c left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
       and case when $1 then c.relkind in ('r', 'p') and not c.relispartition else c.relkind = 'r' end and c.relpersistence = 'p'
     group by c.oid order by 1`,
    [isAsRoot],
  );
  const entries: [string, { source: string[]; sink: string[] }][] = [];
  for (const { name, schema, table, columns } of tables) {
    if (catalog && !selectTable(catalog, schema, table)) continue;
    const { wanted: wantedSql, found: foundSql } = rowsSql(name, columns, {
      excluded: catalog ? excludedColumns(catalog, schema, table) : [],
      hashed: catalog ? hashedColumns(catalog, schema, table) : [],
      salt: catalog?.column_hashing?.salt ?? "",
    });
    const texts = ({ rows }: { rows: { row: string }[] }) => rows.map(({ row }) => row);
    const wanted = texts(await source.query<{ row: string }>(wantedSql));
    const found = await sink.query<{ row: string }>(foundSql).then(texts, (error) => [String(error)]);
    if (wanted.join("\n") !== found.join("\n")) entries.push([name, firstDifference(wanted, found)]);
  }
  return Object.fromEntries(entries);
}

interface Masked {
  readonly excluded: readonly string[];
  readonly hashed: readonly string[];
  readonly salt: string;
}

/** What the rows at the sink should be, asked of the source, and what they are. */
function rowsSql(name: string, all: readonly string[], { excluded, hashed, salt }: Masked) {
  const columns = all.filter((column) => !excluded.includes(column));
  const rows = (list: readonly string[]) =>
    `select row(${list.join(", ")})::text as row from ${name} order by 1`;
  const asSent = (column: string) => {
    const value = escapeIdentifier(column);
    if (!hashed.includes(column)) return value;
    const text = `${escapeLiteral(salt)} || format('%s', ${value})`;
    return `case when num_nulls(${value}) = 0 then encode(sha256(convert_to(${text}, 'UTF8')), 'hex') end`;
  };
  return { wanted: rows(columns.map(asSent)), found: rows(columns.map(escapeIdentifier)) };
}

/** Some of what differs: enough to see why. */
function firstDifference(source: readonly string[], sink: readonly string[]) {
  const inSink = new Set(sink);
  const inSource = new Set(source);
  return {
    source: source.filter((row) => !inSink.has(row)).slice(0, 5),
    sink: sink.filter((row) => !inSource.has(row)).slice(0, 5),
    counts: [source.length, sink.length],
  };
}
