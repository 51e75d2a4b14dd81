// Which tables and columns of a source travel: the connector's catalog, asked by name.

import { type Catalog, hashedColumns, selectColumn, selectTable } from "../../connector/catalog.ts";
import type { PostgresSourceConfig } from "../../connector/source-config.ts";

/** Pure questions. Whether an excluded column is part of the primary key is checked where the key is known. */
export interface TableSelection {
  includesTable(schema: string, table: string): boolean;
  includesColumn(schema: string, table: string, column: string): boolean;
  /** Names of the columns whose values travel as their hash, whether they exist or not. */
  hashedColumns(schema: string, table: string): readonly string[];
  /** Secret. */
  readonly salt: string;
  /** Tables without a key get a column with the hash of the row. */
  readonly hashesKeylessRows: boolean;
}

type SelectionConfig = Pick<PostgresSourceConfig, "catalog" | "keyless_table_strategy">;

export function selectionOf({ catalog, keyless_table_strategy }: SelectionConfig): TableSelection {
  return {
    includesTable: (schema, table) => selectTable(catalog, schema, table),
    includesColumn: (schema, table, column) => selectColumn(catalog, schema, table, column),
    hashedColumns: (schema, table) => hashedColumns(catalog, schema, table),
    salt: catalog.column_hashing?.salt ?? "",
    hashesKeylessRows: keyless_table_strategy.dedup_by_row_hash !== undefined,
  };
}

/** Tables that the catalog includes by name: they must exist. */
export function namedTables(catalog: Catalog): readonly { schema: string; name: string }[] {
  return catalog.schemas.flatMap((schema) =>
    schema.tables
      .filter((table) => table.action === "Include")
      .map((table) => ({ schema: schema.name, name: table.name })),
  );
}
