// How findings speak of tables: a few of them by name, and SQL for each, of which there may be thousands.

import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { listedNames } from "./listed-names.ts";

type Name = Pick<Relation, "schema" | "name">;

/** More commands than for so many tables help nobody; the message tells how many there are. */
const maxTables = 1000;

/** "3 tables: a.b, a.c and 1 more". */
export function listedTables(tables: readonly Name[]): string {
  const names = tables.map((table) => qualifiedName(table));
  return `${tables.length} table${tables.length === 1 ? "" : "s"}: ${listedNames(names)}`;
}

/** The SQL of each table, in their order. */
export function tableCommands<Table extends Name>(
  tables: readonly Table[],
  sql: (table: Table) => readonly string[],
): string[] {
  return tables.slice(0, maxTables).flatMap(sql);
}
