// The warning of a run while tables are set aside.

import { qualifiedName } from "../change/relation.ts";
import type { SetAsideTable } from "../sink/sink-events.ts";

/** How many tables the warning names. The status lists all of them. */
const maxNamed = 3;

/** Null: no table is set aside. */
export function describeSetAside(tables: readonly SetAsideTable[]): string | null {
  if (tables.length === 0) return null;
  const named = tables.slice(0, maxNamed).map(describe);
  const rest = tables.length - named.length;
  return [...named, ...(rest > 0 ? [`${rest} more tables are set aside.`] : [])].join(" ");
}

function describe(table: SetAsideTable): string {
  const name = qualifiedName(table);
  if (table.since === null) return `Table ${name} is not copied. ${table.reason}`;
  if (table.commands.length === 0) return `Table ${name} was set aside. ${table.reason}`;
  const sql = table.commands.map((command) => `${command};`).join(" ");
  return (
    `Table ${name} is set aside, and the others go on: ${table.reason} Run at the sink: ${sql} ` +
    "The table is copied again then."
  );
}
