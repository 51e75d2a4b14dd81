// Reads the schemas, tables and columns of a source for the catalog endpoint. connector/catalog.ts decides what a
// connector carries of them.

import type { Client } from "pg";
import { withPostgres } from "../../../connection/postgres-client.ts";
import type { Catalog } from "../../../connector/config/catalog.ts";
import type { PostgresConnection } from "../../../connector/config/connection.ts";
import { isBookkeeping } from "../shapes/table-shapes.ts";
import { keyNumbersSql } from "./key-numbers.ts";

/** `[name, type, primary key, nullable, supported]`, as the query builds it. */
type ColumnRow = readonly [string, string, boolean, boolean, boolean];

interface CatalogRow {
  readonly database: string;
  readonly schema: string | null;
  /** Null: the schema has no tables. */
  readonly table: string | null;
  readonly columns: readonly ColumnRow[] | null;
}

/**
 * One row for each table: ordinary and partitioned tables that are written to the WAL. Views, foreign, temporary and
 * unlogged tables have no changes to carry. A virtual generated column is not supported: it is never published, and only
 * some sinks compute it.
 * https://www.postgresql.org/docs/current/logical-replication-gencols.html
 */
const catalogQuery = `
  select current_database() as database, n.nspname as schema, c.relname as table,
         coalesce(a.columns, '[]'::json) as columns
    from pg_namespace n
    left join pg_class c
      on c.relnamespace = n.oid and c.relkind in ('r', 'p') and c.relpersistence = 'p' and not ${isBookkeeping}
    left join pg_index i on i.indrelid = c.oid and i.indisprimary
    left join lateral (
      select json_agg(json_build_array(
               attname, format_type(atttypid, atttypmod),
               coalesce(attnum = any (${keyNumbersSql}), false), not attnotnull, attgenerated <> 'v'
             ) order by attnum) as columns
        from pg_attribute
       where attrelid = c.oid and attnum > 0 and not attisdropped
    ) a on true
   where n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
   order by n.nspname, c.relname`;

/**
 * The catalog of the database that `connection` names: every schema except the system's, even without tables. Throws
 * `signal.reason`, `source_unreachable`, `source_timeout`, `source_authentication_failed` or `source_connection_lost`,
 * whose messages quote nothing of the request.
 */
export async function readCatalog(connection: PostgresConnection, signal: AbortSignal): Promise<Catalog> {
  return await withPostgres(connection, "catalog", signal, "source", (client) =>
    readCatalogOf(client, connection.database),
  );
}

/** The same over the caller's connection. Throws what `pg` throws. */
async function readCatalogOf(client: Client, database: string): Promise<Catalog> {
  const { rows } = await client.query<CatalogRow>(catalogQuery);
  return assembleCatalog(database, rows);
}

function assembleCatalog(database: string, rows: readonly CatalogRow[]): Catalog {
  const bySchema = Map.groupBy(
    rows.filter((row) => row.schema !== null),
    (row) => row.schema ?? "",
  );
  return {
    name: rows[0]?.database ?? database,
    default_action: "Exclude",
    schemas: [...bySchema].map(([name, tables]) => ({
      name,
      action: "Include",
      tables: tables.flatMap((row) =>
        row.table === null ? [] : [assembleTable(row.table, row.columns ?? [])],
      ),
    })),
  };
}

function assembleTable(name: string, columns: readonly ColumnRow[]) {
  return {
    name,
    action: "Include" as const,
    history_enabled: false,
    columns: columns.map(([column, dataType, primaryKey, nullable, supported]) => ({
      name: column,
      data_type: dataType,
      primary_key: primaryKey,
      nullable,
      supported,
      action: "Include" as const,
    })),
  };
}
