// What a run warns of while tables are set aside.

import { qualifiedName } from "../change/relation.ts";
import type { SetAsideTable } from "../sink/sink.ts";

/** The status lists them all; of more than these the warning gives the number. */
const mostTold = 3;

/** Null: there is none. */
export function describeSetAside(tables: readonly SetAsideTable[]): string | null {
  if (tables.length === 0) return null;
  const told = tables.slice(0, mostTold).map(describe);
  const rest = tables.length - told.length;
  return [...told, ...(rest > 0 ? [`${rest} more tables are set aside.`] : [])].join(" ");
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
