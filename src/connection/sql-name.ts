// Writes a table's name in SQL.

import { escapeIdentifier } from "pg";

/** `"schema"."table"`, quoted. */
export function sqlName({ schema, name }: { readonly schema: string; readonly name: string }): string {
  return `${escapeIdentifier(schema)}.${escapeIdentifier(name)}`;
}
