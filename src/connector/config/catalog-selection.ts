// What a catalog selects: tables, columns, and whose history is kept. Apart from the schema, whose library a worker thread does not need.

import type { Catalog } from "./catalog.ts";

/** System schemas are never selected, whatever the catalog says. */
function isSystemSchema(schema: string): boolean {
  return schema === "information_schema" || schema.startsWith("pg_");
}

/**
 * Whether a table is selected. The most specific entry counts.
 *
 * - A listed table has its own action, whatever its schema and the default say.
 * - An unlisted table of a schema that is listed without tables has the schema's action.
 * - An unlisted table of a schema that is listed with tables is excluded if the schema is; otherwise it has the default. So
 *   under `Exclude` the listed tables are the whole selection, and a table that is created later is not selected.
 * - A table of an unlisted schema has the default.
 */
export function selectTable(catalog: Catalog, schema: string, table: string): boolean {
  if (isSystemSchema(schema)) return false;
  const listedSchema = named(catalog.schemas, schema);
  if (!listedSchema) return catalog.default_action === "Include";
  const listedTable = named(listedSchema.tables, table);
  if (listedTable) return listedTable.action === "Include";
  if (listedSchema.action === "Exclude") return false;
  if (listedSchema.tables.length === 0) return true;
  return catalog.default_action === "Include";
}

/**
 * Whether a column of a selected table is carried. Only a column that is listed with `Exclude` is not; a column that
 * the source adds later is carried. The caller checks that an excluded column is not part of the primary key.
 */
export function selectColumn(catalog: Catalog, schema: string, table: string, column: string): boolean {
  if (!selectTable(catalog, schema, table)) return false;
  return findColumn(catalog, schema, table, column)?.action !== "Exclude";
}

/** Names of the table's excluded columns, whether they exist or not. */
export function excludedColumns(catalog: Catalog, schema: string, table: string): readonly string[] {
  const columns = findTable(catalog, schema, table)?.columns ?? [];
  return columns.filter((column) => column.action === "Exclude").map((column) => column.name);
}

/** Names of the table's columns whose values are replaced by their salted hash. */
export function hashedColumns(catalog: Catalog, schema: string, table: string): readonly string[] {
  const columns = findTable(catalog, schema, table)?.columns ?? [];
  return columns.filter((column) => column.hash !== undefined).map((column) => column.name);
}

/** Whether the catalog asks for the history of a table; null: it does not list the table. */
export function historyAsked(catalog: Catalog): (schema: string, table: string) => boolean | null {
  return (schema, table) => findTable(catalog, schema, table)?.history_enabled ?? null;
}

function findColumn(catalog: Catalog, schema: string, table: string, column: string) {
  return named(findTable(catalog, schema, table)?.columns ?? [], column);
}

function findTable(catalog: Catalog, schema: string, table: string) {
  return named(named(catalog.schemas, schema)?.tables ?? [], table);
}

/** Of lists in catalogs, which are not changed. A catalog may list ten thousand tables, and is asked of each. */
const indexes = new WeakMap<readonly object[], ReadonlyMap<string, unknown>>();

/** The first one of this name. */
function named<Entry extends { readonly name: string }>(
  list: readonly Entry[],
  name: string,
): Entry | undefined {
  const byName = indexes.getOrInsertComputed(
    list,
    () => new Map(list.toReversed().map((entry) => [entry.name, entry])),
  );
  return byName.get(name) as Entry | undefined;
}
