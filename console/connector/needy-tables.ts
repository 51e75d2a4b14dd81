// Which of the tables that are set aside wait for somebody. Pure.

import type { ConnectorStatus, SetAsideTable } from "../../src/connector/status.ts";

/** Whose cause is gone goes on by itself: nothing is left to do about it. */
export function needyTables({ tables_set_aside: tables = [] }: ConnectorStatus): readonly SetAsideTable[] {
  return tables.filter((table) => table.copied_again !== true);
}
