// The catalog: the tables and columns of a source, and which of them a connector selects, with the pure rules of
// selection. The source reads a catalog from a server.

import { type Static, Type } from "@sinclair/typebox";
import { freeFormObject, oneOf, secretInput, secretText, strictObject } from "../request/schema-forms.ts";

const ActionSchema = oneOf(["Include", "Exclude"]);

const identifier = (description: string) => Type.String({ minLength: 1, maxLength: 255, description });

const columnFacts = {
  name: identifier("Column name."),
  primary_key: Type.Optional(Type.Boolean({ description: "Part of the primary key." })),
  nullable: Type.Optional(Type.Boolean()),
  data_type: Type.Optional(Type.String({ description: "The type as the source prints it." })),
  supported: Type.Optional(Type.Boolean({ description: "Whether values of the type can be carried." })),
  hash: Type.Optional(freeFormObject("Present: the column's values are replaced by their salted hash.")),
};

const tableFacts = {
  name: identifier("Table name."),
  iceberg_partition_spec: Type.Optional(freeFormObject("Partitioning at an Iceberg sink.")),
  on_mongo_type_conflict: Type.Optional(freeFormObject("What to do about mixed types of a MongoDB field.")),
  target_option: Type.Optional(freeFormObject("Options of the sink for this table.")),
  source_option: Type.Optional(freeFormObject("Options of the source for this table.")),
};

const hashAlgorithm = oneOf(["Sha256"]);
const historyEnabled = Type.Boolean({
  description:
    "Keep every change of the table at a Postgres sink, in a table beside it. A webhook or Kafka gets every change anyway.",
});

// --- request form ----------------------------------------------------------------------------

const ColumnRequestSchema = strictObject({ ...columnFacts, action: Type.Optional(ActionSchema) });

const TableRequestSchema = strictObject({
  ...tableFacts,
  columns: Type.Optional(Type.Array(ColumnRequestSchema)),
  action: Type.Optional(ActionSchema),
  history_enabled: Type.Optional(historyEnabled),
});

const SchemaRequestSchema = strictObject({
  name: identifier("Schema name."),
  tables: Type.Optional(Type.Array(TableRequestSchema)),
  action: Type.Optional(ActionSchema),
});

export const CatalogRequestSchema = strictObject({
  name: Type.Optional(identifier("Catalog (database) name; left out: the connection's database.")),
  schemas: Type.Optional(Type.Array(SchemaRequestSchema)),
  default_action: Type.Optional(ActionSchema),
  column_hashing: Type.Optional(
    strictObject({
      algorithm: Type.Optional(hashAlgorithm),
      salt: secretInput("Put before each value that is hashed."),
    }),
  ),
});
export type CatalogRequest = Static<typeof CatalogRequestSchema>;

// --- full form -------------------------------------------------------------------------------

const ColumnSchema = strictObject({ ...columnFacts, action: ActionSchema });
export type CatalogColumn = Static<typeof ColumnSchema>;

const TableSchema = strictObject({
  ...tableFacts,
  columns: Type.Array(ColumnSchema),
  action: ActionSchema,
  history_enabled: historyEnabled,
});

const SchemaSchema = strictObject({
  name: identifier("Schema name."),
  tables: Type.Array(TableSchema),
  action: ActionSchema,
});

export const CatalogFullSchema = strictObject({
  name: Type.String({ description: "Catalog (database) name." }),
  schemas: Type.Array(SchemaSchema),
  default_action: ActionSchema,
  column_hashing: Type.Optional(
    strictObject({ algorithm: hashAlgorithm, salt: secretText("Put before each value that is hashed.") }),
  ),
});

/**
 * The full form. As read from a source it has `primary_key`, `nullable`, `data_type` and `supported` of every column;
 * in a connector's selection it has what the client sent.
 */
export type Catalog = Static<typeof CatalogFullSchema>;

// --- selection -------------------------------------------------------------------------------

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

/** Whether the catalog asks for the history of a table; null: it does not list the table. It may list ten thousand: they are looked through once. */
export function historyAsked(catalog: Catalog): (schema: string, table: string) => boolean | null {
  const asked = new Map(
    catalog.schemas.flatMap((schema) =>
      schema.tables.map(
        (table) => [JSON.stringify([schema.name, table.name]), table.history_enabled] as const,
      ),
    ),
  );
  return (schema, table) => asked.get(JSON.stringify([schema, table])) ?? null;
}
