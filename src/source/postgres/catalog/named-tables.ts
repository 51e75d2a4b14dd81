// Checks the tables that the catalog includes by name: a mistyped name must not pass for a table without changes.

import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import type { Catalog } from "../../../connector/config/catalog.ts";
import { listedNames } from "../../../errors/listed-names.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

export function namedTables(catalog: Catalog): readonly { schema: string; name: string }[] {
  return catalog.schemas.flatMap((schema) =>
    schema.tables
      .filter((table) => table.action === "Include")
      .map((table) => ({ schema: schema.name, name: table.name })),
  );
}

/** Throws `table_unavailable` when one of them is not among `shapes`. */
export function requireNamedTables(catalog: Catalog, shapes: readonly TableShape[]): void {
  const absent = absentTables(catalog, shapes);
  if (absent !== null) throw absent;
}

/** `table_unavailable`; null: no table is missing. */
export function absentTables(catalog: Catalog, shapes: readonly TableShape[]): MillraceError | null {
  const names = missingNames(catalog, shapes);
  return names === null ? null : new MillraceError("table_unavailable", `${lacks(names)} ${remedy}`);
}

/** The warning for tables that have gone since the connector began; null: none has. Other tables continue. */
export function warningOfGone(catalog: Catalog, shapes: readonly TableShape[]): string | null {
  const names = missingNames(catalog, shapes);
  return names && `${lacks(names)} The others go on. ${remedy}`;
}

const remedy = "Create them, or take them out of the catalog.";

function lacks(names: string): string {
  return `The catalog includes tables that the source does not have as permanent tables: ${names}.`;
}

function missingNames(catalog: Catalog, shapes: readonly TableShape[]): string | null {
  const present = new Set(shapes.map(({ relation }) => qualifiedName(relation)));
  const missing = namedTables(catalog)
    .map((table) => qualifiedName(table))
    .filter((name) => !present.has(name));
  return missing.length === 0 ? null : listedNames(missing);
}
