// Which of the tables that are set aside wait for somebody. Pure.

import type { CopiedAgain } from "../../src/connector/copied-again.ts";
import type { ConnectorStatus, SetAsideTable } from "../../src/connector/status.ts";

/** The service says it of a table whose cause is gone. */
export const copiedAgain: CopiedAgain = "It can go on: it is being copied again.";

/** Whose cause is gone goes on by itself: nothing is left to do about it. */
export function needyTables({ tables_set_aside: tables = [] }: ConnectorStatus): readonly SetAsideTable[] {
  return tables.filter(({ reason }) => reason !== copiedAgain);
}
