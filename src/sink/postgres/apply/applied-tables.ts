// What the sink knows of the connector's tables while it applies their changes.

import type { Client } from "pg";
import type { IncompleteRows } from "../bookkeeping/incomplete-rows.ts";
import type { TablesByName } from "../bookkeeping/replaced-tables.ts";
import type { SetAsideTables } from "../bookkeeping/set-aside-tables.ts";
import type { TouchedKeys } from "../copy/touched-keys.ts";
import type { Histories } from "../history/histories.ts";
import type { TableRegistry } from "../schema/table-registry.ts";
import type { UndoLog } from "./undo-log.ts";

/** It changes with the transaction. */
export interface AppliedTables extends TablesByName {
  readonly registry: TableRegistry;
  readonly setAside: SetAsideTables;
  readonly incomplete: IncompleteRows;
  readonly touched: TouchedKeys;
  readonly histories: Histories;
  inTransaction<T>(client: Client, action: () => Promise<T>): Promise<T>;
  /** Undoes changes of this knowledge when the transaction is rolled back. */
  readonly undo: UndoLog;
}
