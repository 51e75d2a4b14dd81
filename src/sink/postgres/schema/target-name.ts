// Where a table is at the sink, and how its names are written in SQL. Which table of the source it is for: target-naming.ts.

import { escapeIdentifier } from "pg";

export interface TargetName {
  readonly schema: string;
  readonly name: string;
}

export function sqlList(columns: readonly string[], prefix = ""): string {
  return columns.map((column) => `${prefix}${escapeIdentifier(column)}`).join(", ");
}
