// What a task beside the stream needs of its run, and which table a task is of.

import { qualifiedName, type TableShape } from "../../change/relation.ts";
import { tableOfTask } from "../../connector/task-table.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { IncrementalCopies } from "../copy/incremental-copies.ts";
import type { MissingCopies } from "../copy/missing-copies.ts";
import type { OfferedTask } from "../run-reporter.ts";

export interface TaskContext {
  /** Call it between two batches: prepares the sink for all tables as they are now, and returns them. */
  readonly listTables: () => Promise<readonly TableShape[]>;
  /**
   * As `listTables`, but where nothing has changed at the source, and the sink has asked for nothing, it returns what that returned last. With
   * thousands of tables the stream would wait for seconds otherwise. What somebody altered at the sink goes unnoticed.
   */
  readonly currentTables: () => Promise<readonly TableShape[]>;
  /** As of the last `listTables`: which tables there are, which have incomplete rows, cannot be read, or are to be proved. */
  readonly copies: Pick<MissingCopies, "idOf" | "tables" | "wasIncomplete" | "unreadable" | "unproved">;
  /** Why a copy of the table would miss changes, as of the last `listTables`; null: it would not. */
  readonly copyBlocker: (table: TableShape) => MillraceError | null;
  /** First copies that are under way. */
  readonly first: IncrementalCopies;
  /** Says that the stream waits while the table is copied. */
  readonly whileWaiting: <T>(table: TableShape, copy: () => Promise<T>) => Promise<T>;
}

/** Throws `table_unavailable`. */
export function findTable(tables: readonly TableShape[], database: string, task: OfferedTask): TableShape {
  const asked = tableOfTask(task.spec);
  const { schema, name } = asked;
  if (asked.database !== database) {
    throw new MillraceError(
      "table_unavailable",
      `The connector reads the database ${database}, and no table of ${asked.database}.`,
    );
  }
  const table = tables.find(({ relation }) => relation.schema === schema && relation.name === name);
  if (table) return table;
  throw new MillraceError(
    "table_unavailable",
    `Table ${qualifiedName({ schema, name })} does not exist at the source, or the connector's catalog does not select it.`,
  );
}
