// The name of a table at the sink, and names as SQL. target-naming.ts decides which source table has which target.

import { escapeIdentifier } from "pg";

export interface TargetName {
  readonly schema: string;
  readonly name: string;
}

export function sqlList(columns: readonly string[], prefix = ""): string {
  return columns.map((column) => `${prefix}${escapeIdentifier(column)}`).join(", ");
}
