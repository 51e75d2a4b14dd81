// A Postgres database as a source of copies only. It creates nothing and does not read the log, so it needs no more
// than SELECT, and may be a standby.

import type { Client } from "pg";
import type { TupleForm } from "../../change/change-batch.ts";
import type { AskComputed } from "../../change/computed-columns.ts";
import type { CopyPart } from "../../change/copy-part.ts";
import type { TableSize } from "../../change/page-range.ts";
import type { TableShape } from "../../change/relation.ts";
import { connectPostgres, isIdle, withPostgres } from "../../connection/postgres-client.ts";
import { whileWatched } from "../../connection/session-watch.ts";
import type { PostgresSourceConfig } from "../../connector/config/source-config.ts";
import type { MillraceError } from "../../errors/millrace-error.ts";
import type { ChangeStream } from "../change-stream.ts";
import type { ExcludedTable, Source, SourceContext } from "../source.ts";
import type { SnapshotPoint, TableRows } from "../table-source.ts";
import { ExcludedTables } from "./catalog/excluded-tables.ts";
import { absentTables } from "./catalog/named-tables.ts";
import { selectionOf, type TableSelection } from "./catalog/table-selection.ts";
import { readDenial } from "./copy/read-denial.ts";
import { ExportedSnapshot } from "./copy/snapshot-point.ts";
import { TableReader } from "./copy/table-reader.ts";
import { GeneratedColumns } from "./shapes/generated-columns.ts";

export class PostgresCopySource implements Source {
  readonly #selection: TableSelection;
  readonly #reader: TableReader;
  readonly #generated: GeneratedColumns;
  #absent: MillraceError | null = null;
  readonly #excluded: ExcludedTables;

  constructor(
    private readonly config: PostgresSourceConfig,
    private readonly context: SourceContext,
  ) {
    this.#selection = selectionOf(config);
    this.#reader = new TableReader(config.connection, this.#selection, context.signal, context);
    const reading = { selection: this.#selection, partitionsAsRoot: config.partitions_as_root };
    this.#generated = new GeneratedColumns(reading, context, undefined);
    this.#excluded = new ExcludedTables({ ...reading, publication: null });
  }

  get database(): string {
    return this.config.connection.database;
  }

  async tables(ask?: AskComputed): Promise<readonly TableShape[]> {
    const { catalog } = this.config;
    const tables = await this.#withClient(async (client) => {
      const read = await this.#generated.read(client, ask, false);
      await this.#excluded.read(client, read);
      return read;
    });
    this.#absent = absentTables(catalog, tables);
    return tables;
  }

  excluded(): readonly ExcludedTable[] {
    return this.#excluded.tables;
  }

  absent(): MillraceError | null {
    return this.#absent;
  }

  async snapshotPoint(stop: AbortSignal): Promise<SnapshotPoint> {
    const signal = AbortSignal.any([this.context.signal, stop]);
    const { host, port } = this.config.connection;
    return await ExportedSnapshot.ofTransaction(
      await connectPostgres(this.config.connection, "snapshot", signal, "source"),
      `${host.toLowerCase()}:${port}`,
    );
  }

  readDenial(table: TableShape): Promise<MillraceError | null> {
    return this.#withClient((client) => readDenial(client, table));
  }

  measure(table: TableShape): Promise<TableSize | null> {
    return this.#reader.measure(table);
  }

  readTable(table: TableShape, point: SnapshotPoint, form: TupleForm, part?: CopyPart): TableRows {
    return this.#reader.copy(table, point, form, part);
  }

  /** Nothing is published, and nothing can be missed: each round copies everything. */
  async publish(): Promise<void> {}

  copied(): void {}

  async announceShapes(): Promise<void> {}

  /** There is no slot. */
  async keptLog(): Promise<null> {
    return null;
  }

  /** Each round reads the tables again. */
  tablesChanged(): Promise<never> {
    const { signal } = this.context;
    return new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
  }

  createSlot(): Promise<SnapshotPoint> {
    throw new Error("a source of copies has no slot");
  }

  checkLog(): Promise<string> {
    throw new Error("a source of copies has no position in a log");
  }

  checkSlot(): Promise<void> {
    throw new Error("a source of copies has no slot");
  }

  stream(): Promise<ChangeStream> {
    throw new Error("a source of copies has no stream");
  }

  /** Snapshot points close their own sessions. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#reader[Symbol.asyncDispose]();
  }

  #withClient<T>(action: (client: Client) => Promise<T>): Promise<T> {
    const { connection } = this.config;
    const { signal } = this.context;
    return withPostgres(connection, "control", signal, "source", (client) =>
      whileWatched({ connection, side: "source", client, signal, isClientBusy: () => isIdle(client) }, () =>
        action(client),
      ),
    );
  }
}
