// Reads a database's tables with their columns and keys, for the comparisons.

import { type Client, escapeIdentifier } from "pg";

export interface ComparedTable {
  readonly schema: string;
  readonly name: string;
  /** Replicated columns, in the table's order. */
  readonly columns: readonly string[];
  /** The columns of type bytea. */
  readonly binaryColumns: readonly string[];
  /** Empty if the table has no primary key. */
  readonly primaryKey: readonly string[];
}

const query = `
  select n.nspname as schema, c.relname as name,
         array_agg(a.attname::text order by a.attnum) as columns,
         coalesce(array_agg(a.attname::text order by a.attnum) filter (where a.atttypid = 'bytea'::regtype), '{}')
           as "binaryColumns",
         coalesce(array_agg(a.attname::text order by array_position(i.indkey::int2[], a.attnum))
           filter (where a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1])), '{}') as "primaryKey"
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    left join pg_index i on i.indrelid = c.oid and i.indisprimary
   where c.relkind = 'r' and c.relpersistence = 'p'
     and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
   group by 1, 2
   order by 1, 2`;

/** Lists every ordinary table outside the system schemas. */
export async function listTables(client: Client): Promise<readonly ComparedTable[]> {
  const { rows } = await client.query<ComparedTable>(query);
  return rows;
}

export function sqlName(table: { readonly schema: string; readonly name: string }): string {
  return `${escapeIdentifier(table.schema)}.${escapeIdentifier(table.name)}`;
}

/** `row(a, b)::text`: every value as Postgres prints it. */
export function rowText(columns: readonly string[], prefix = ""): string {
  return `row(${columns.map((column) => prefix + escapeIdentifier(column)).join(", ")})::text`;
}
