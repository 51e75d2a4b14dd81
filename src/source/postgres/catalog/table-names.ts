// Reads the names of all tables, selected or not, as of a position in the log. When a root is renamed whose partition
// was announced under the root's name, the server does not announce it again: only the catalog then shows which of its
// rows are selected.
// https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html (Relation)

import type { Client } from "pg";
import type { Lsn } from "../../../change/lsn.ts";
import { readInsertLsn } from "../slot/slot.ts";

export interface TableName {
  readonly schema: string;
  readonly name: string;
}

export interface TableNames {
  readonly byOid: ReadonlyMap<number, TableName>;
  /** Rows that are committed from here on were written under these names, or later ones. */
  readonly at: Lsn;
}

const namesQuery = `
select c.oid, n.nspname as schema, c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relpersistence = 'p' and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'`;

export async function readTableNames(client: Client): Promise<TableNames> {
  const { rows } = await client.query<TableName & { oid: number }>(namesQuery);
  const byOid = new Map(rows.map(({ oid, schema, name }) => [oid, { schema, name }]));
  return { byOid, at: await readInsertLsn(client) };
}

export function areSameNames(a: TableNames["byOid"], b: TableNames["byOid"]): boolean {
  const isIn = (oid: number, { schema, name }: TableName) => {
    const other = b.get(oid);
    return other?.name === name && other.schema === schema;
  };
  return a.size === b.size && [...a].every(([oid, name]) => isIn(oid, name));
}
