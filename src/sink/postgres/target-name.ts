// Where a source's table lives at the sink, and how its names are written in SQL.

import { escapeIdentifier } from "pg";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";

export interface TargetName {
  readonly schema: string;
  readonly name: string;
}

export function targetName(
  config: Pick<PostgresSinkConfig, "target_schema">,
  relation: { readonly schema: string; readonly name: string },
): TargetName {
  return { schema: config.target_schema ?? relation.schema, name: relation.name };
}

export function sqlList(columns: readonly string[], prefix = ""): string {
  return columns.map((column) => `${prefix}${escapeIdentifier(column)}`).join(", ");
}
