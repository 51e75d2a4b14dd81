// Which tables and columns of a source travel: the connector's catalog, asked by name.

import {
  type Catalog,
  excludedColumns,
  hashedColumns,
  selectTable,
} from "../../../connector/config/catalog.ts";
import type { PostgresSourceConfig } from "../../../connector/config/source-config.ts";
import { type SystemColumns, systemColumnsOf } from "../shapes/system-columns.ts";

/** Pure questions. Whether an excluded column is part of the primary key is checked where the key is known. */
export interface TableSelection {
  includesTable(schema: string, table: string): boolean;
  includesColumn(schema: string, table: string, column: string): boolean;
  /** Whether the table's columns of a name are left out; null: whether those of any name are. */
  mayExclude(table: { readonly schema: string; readonly name: string }, column: string | null): boolean;
  /** Names of the columns whose values travel as their hash, whether they exist or not. */
  hashedColumns(schema: string, table: string): readonly string[];
  /** Secret. */
  readonly salt: string;
  /** Columns that each table gets. */
  readonly systemColumns: SystemColumns;
  /** Tables without a key get a column with the hash of the row. */
  readonly hashesKeylessRows: boolean;
}

type SelectionConfig = Pick<PostgresSourceConfig, "catalog" | "keyless_table_strategy" | "system_columns">;

export function selectionOf({
  catalog,
  keyless_table_strategy,
  system_columns,
}: SelectionConfig): TableSelection {
  // A catalog may list ten thousand tables: each is looked for in it once.
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
