// How messages name tables: a few by name, and SQL for each. There may be thousands.

import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { listedNames } from "../../../errors/listed-names.ts";

type Name = Pick<Relation, "schema" | "name">;

/** More commands than this help nobody; the message has the number of tables. */
const maxTables = 1000;

/** "3 tables: a.b, a.c and 1 more". */
export function listedTables(tables: readonly Name[]): string {
  const names = tables.map((table) => qualifiedName(table));
  return `${tables.length} table${tables.length === 1 ? "" : "s"}: ${listedNames(names)}`;
}

/** The SQL for each table, in order. */
export function tableCommands<Table extends Name>(
  tables: readonly Table[],
  sql: (table: Table) => readonly string[],
): string[] {
  return tables.slice(0, maxTables).flatMap(sql);
}
