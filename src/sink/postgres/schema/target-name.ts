// The name of a table at the sink, and names as SQL. target-naming.ts decides which source table has which target.

import { escapeIdentifier } from "pg";

/** NAMEDATALEN - 1: Postgres truncates longer names with only a notice. */
export const maxNameBytes = 63;

export interface TargetName {
  readonly schema: string;
  readonly name: string;
}

export function sqlList(columns: readonly string[], prefix = ""): string {
  return columns.map((column) => `${prefix}${escapeIdentifier(column)}`).join(", ");
}
