// Answers which tables and columns of a source are selected by the connector's catalog.

import type { Catalog } from "../../../connector/config/catalog.ts";
import { excludedColumns, hashedColumns, selectTable } from "../../../connector/config/catalog-selection.ts";
import type { PostgresSourceConfig } from "../../../connector/config/source-config.ts";
import { type SystemColumns, systemColumnsOf } from "../shapes/system-columns.ts";

/** Pure. The reader of a table's key checks whether an excluded column is part of it. */
export interface TableSelection {
  includesTable(schema: string, table: string): boolean;
  includesColumn(schema: string, table: string, column: string): boolean;
  /** Whether the table's column of this name is excluded; null: whether any column is. */
  mayExclude(table: { readonly schema: string; readonly name: string }, column: string | null): boolean;
  /** Names of the columns that are replaced by their hash, whether they exist or not. */
  hashedColumns(schema: string, table: string): readonly string[];
  /** A secret: it must not be logged. */
  readonly salt: string;
  /** Columns that the source adds to each table. */
  readonly systemColumns: SystemColumns;
  /** Tables without a key get a column with a hash of the row. */
  readonly hashesKeylessRows: boolean;
}

type SelectionConfig = Pick<PostgresSourceConfig, "catalog" | "keyless_table_strategy" | "system_columns">;

export function selectionOf({
  catalog,
  keyless_table_strategy,
  system_columns,
}: SelectionConfig): TableSelection {
  // A catalog may list ten thousand tables: search it once for each.
  const known = new Map<string, SelectedTable>();
  const selected = (schema: string, name: string) => {
    const key = JSON.stringify([schema, name]);
    const table = known.get(key) ?? selectedTable(catalog, schema, name);
    known.set(key, table);
    return table;
  };
  return {
    includesTable: (schema, table) => selected(schema, table).isIncluded,
    includesColumn: (schema, table, column) => {
      const { isIncluded, excluded } = selected(schema, table);
      return isIncluded && !excluded.has(column);
    },
    mayExclude: ({ schema, name }, column) => {
      const { excluded } = selected(schema, name);
      return column === null ? excluded.size > 0 : excluded.has(column);
    },
    hashedColumns: (schema, table) => selected(schema, table).hashed,
    salt: catalog.column_hashing?.salt ?? "",
    systemColumns: systemColumnsOf(system_columns),
    hashesKeylessRows: keyless_table_strategy.dedup_by_row_hash !== undefined,
  };
}

interface SelectedTable {
  readonly isIncluded: boolean;
  readonly excluded: ReadonlySet<string>;
  readonly hashed: readonly string[];
}

function selectedTable(catalog: Catalog, schema: string, name: string): SelectedTable {
  return {
    isIncluded: selectTable(catalog, schema, name),
    excluded: new Set(excludedColumns(catalog, schema, name)),
    hashed: hashedColumns(catalog, schema, name),
  };
}
