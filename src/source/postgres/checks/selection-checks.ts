// Compares a connector's catalog with the tables of the source: names that match nothing, and columns that cannot be
// excluded. Pure.

import { qualifiedName, rowHashColumn } from "../../../change/relation.ts";
import type { Finding } from "../../../connection/validation-log.ts";
import type { Catalog } from "../../../connector/config/catalog.ts";
import type { PostgresSourceConfig } from "../../../connector/config/source-config.ts";
import { listedNames } from "../../../errors/listed-names.ts";
import type { TableFacts } from "./source-facts.ts";

/** `present`: all tables of the source; `tables`: the selected ones. */
export function checkSelection(
  present: readonly TableFacts[],
  tables: readonly TableFacts[],
  source: Pick<PostgresSourceConfig, "catalog" | "keyless_table_strategy">,
): Finding {
  const byName = new Map(present.map((table) => [qualifiedName(table), table]));
  const missing = missingTables(source.catalog, byName);
  if (missing.length > 0)
    return { type: "failed", reason: `The source has no table ${listedNames(missing)}.` };
  const needed = neededColumns(source.catalog, byName);
  if (needed.length > 0) {
    const reason = `The catalog excludes columns that tell rows apart (primary key or replica identity): ${listedNames(needed)}.`;
    return { type: "failed", reason };
  }
  const taken = source.keyless_table_strategy.dedup_by_row_hash ? takenNames(tables) : [];
  if (taken.length > 0) {
    const reason = `Tables without a key have a column ${rowHashColumn} of their own: ${listedNames(taken)}.`;
    return { type: "failed", reason };
  }
  if (tables.length === 0) return { type: "warned", message: "No table is selected." };
  const unknown = unknownColumns(source.catalog, byName);
  if (unknown.length > 0) {
    // With a misspelt name, the column that was meant would be sent in the clear.
    const message = `The catalog excludes or hashes columns that the source does not have: ${listedNames(unknown)}.`;
    return { type: "warned", message };
  }
  return { type: "passed", message: `${tables.length} tables are selected.` };
}

type Tables = ReadonlyMap<string, TableFacts>;

function missingTables(catalog: Catalog, tables: Tables): string[] {
  return catalog.schemas.flatMap((schema) =>
    schema.tables
      .map(({ name, action }) => ({ name: qualifiedName({ schema: schema.name, name }), action }))
      .filter(({ name, action }) => action === "Include" && !tables.has(name))
      .map(({ name }) => name),
  );
}

/** Columns that the catalog lists for tables that exist and are included. */
function listedColumns(catalog: Catalog, tables: Tables) {
  return catalog.schemas.flatMap((schema) =>
    schema.tables.flatMap(({ name, action, columns }) => {
      const table = tables.get(qualifiedName({ schema: schema.name, name }));
      return table && action === "Include" ? columns.map((column) => ({ table, column })) : [];
    }),
  );
}

function neededColumns(catalog: Catalog, tables: Tables): string[] {
  return listedColumns(catalog, tables)
    .filter(({ table, column }) => column.action === "Exclude" && table.keyColumns.includes(column.name))
    .map(({ table, column }) => `${qualifiedName(table)}.${column.name}`);
}

function unknownColumns(catalog: Catalog, tables: Tables): string[] {
  return listedColumns(catalog, tables)
    .filter(({ column }) => column.action === "Exclude" || column.hash !== undefined)
    .filter(({ table, column }) => !table.columns.includes(column.name))
    .map(({ table, column }) => `${qualifiedName(table)}.${column.name}`);
}

function takenNames(tables: readonly TableFacts[]): string[] {
  return tables
    .filter(({ keyColumns, columns }) => keyColumns.length === 0 && columns.includes(rowHashColumn))
    .map((table) => qualifiedName(table));
}
