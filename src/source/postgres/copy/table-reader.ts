// Reads tables for copies, in sessions that are used one after the other, whatever point each copy is as of: as many are open as
// tables, and ranges of tables, are read side by side.

import type { TupleForm } from "../../../change/change-batch.ts";
import type { CopyPart } from "../../../change/copy-part.ts";
import type { TableSize } from "../../../change/page-range.ts";
import type { TableShape } from "../../../change/relation.ts";
import { connectPostgres } from "../../../connection/postgres-client.ts";
import { SessionPool } from "../../../connection/session-pool.ts";
import { type TakesTurns, Turns } from "../../../connection/turns.ts";
import type { PostgresConnection } from "../../../connector/config/connection.ts";
import type { SnapshotPoint, TableCopy } from "../../source.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import { ExportedSnapshot } from "./snapshot-point.ts";
import { copyTableChunks, measureTable } from "./table-copy.ts";

export class TableReader implements AsyncDisposable {
  readonly #sessions: SessionPool;
  constructor(
    private readonly connection: PostgresConnection,
    private readonly selection: TableSelection,
    private readonly signal: AbortSignal,
    /** Of those who look after the sessions. */
    private readonly turns: TakesTurns = new Turns(),
  ) {
    this.#sessions = new SessionPool((until) => connectPostgres(connection, "snapshot", until, "source"));
  }

  measure(table: TableShape): Promise<TableSize | null> {
    return measureTable({ ...this.#how, table });
  }

  copy(table: TableShape, point: SnapshotPoint, form: TupleForm, part?: CopyPart): TableCopy {
    if (!(point instanceof ExportedSnapshot)) throw new Error("a snapshot point of another source");
    const count = { rows: 0 };
    const chunks = copyTableChunks({ ...this.#how, table, point, form, part, count });
    return { table, form, chunks, rowsRead: () => count.rows };
  }

  get #how() {
    const { connection, selection, turns, signal } = this;
    return { connection, sessions: this.#sessions, turns, selection, signal };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sessions[Symbol.asyncDispose]();
  }
}
