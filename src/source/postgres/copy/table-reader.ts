// Reads tables for copies in a pool of sessions, each as of any point. As many sessions are open as tables and ranges
// are read at once.

import type { TupleForm } from "../../../change/change-batch.ts";
import type { CopyPart, RowKey } from "../../../change/copy-part.ts";
import type { TableSize } from "../../../change/page-range.ts";
import type { TableShape } from "../../../change/relation.ts";
import type { DigestScan, HashingServer, RowComparison } from "../../../comparison/row-comparison.ts";
import { type Permits, Semaphore } from "../../../concurrency/semaphore.ts";
import { SessionPool, withPooledSession } from "../../../connection/session-pool.ts";
import type { PostgresConnection } from "../../../connector/config/connection.ts";
import type { KeySource } from "../../key-source.ts";
import type { SnapshotPoint, TableRows } from "../../table-source.ts";
import type { VerifySource } from "../../verify-source.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import { connectForRun, type SourceRun } from "../run-sessions.ts";
import { readGivenKeys } from "./given-keys.ts";
import { keysThatFit } from "./keys-that-fit.ts";
import { ExportedSnapshot } from "./snapshot-point.ts";
import { copyTableChunks, measureTable, missingKeyChunks } from "./table-copy.ts";
import { readHashing, tableDigests } from "./table-digests.ts";

export class TableReader implements VerifySource, AsyncDisposable {
  readonly #sessions: SessionPool;
  #isStale = false;

  constructor(
    private readonly connection: PostgresConnection,
    private readonly selection: TableSelection,
    private readonly signal: AbortSignal,
    run: SourceRun,
    /** For the sessions that check these. */
    private readonly permits: Permits = new Semaphore(),
  ) {
    this.#sessions = new SessionPool((until) => connectForRun(connection, "snapshot", until, run));
  }

  /** Since the catalog was last read, a table was not what had been read of it: a rewrite shows in nothing else. */
  get isStale(): boolean {
    return this.#isStale;
  }

  /** A read of the catalog begins. */
  beginRead(): void {
    this.#isStale = false;
  }

  measure(table: TableShape): Promise<TableSize | null> {
    return measureTable({ ...this.#request, table });
  }

  copy(table: TableShape, point: SnapshotPoint, form: TupleForm, part?: CopyPart): TableRows {
    if (!(point instanceof ExportedSnapshot)) throw new Error("a snapshot point of another source");
    const count = { rows: 0 };
    const chunks = copyTableChunks({ ...this.#request, table, point, form, part, count });
    return { chunks, rowsRead: () => count.rows };
  }

  hashing(): Promise<HashingServer> {
    return withPooledSession(this.#sessions, this.signal, "source", readHashing);
  }

  size(table: TableShape, signal: AbortSignal): Promise<TableSize | null> {
    return measureTable({ ...this.#request, table, signal: this.#until(signal) });
  }

  keysThatFit(table: TableShape, keys: readonly RowKey[]): Promise<readonly RowKey[]> {
    return withPooledSession(this.#sessions, this.signal, "source", (client) =>
      keysThatFit(client, table, keys),
    );
  }

  read(
    table: TableShape,
    point: SnapshotPoint,
    comparison: RowComparison,
    scan: DigestScan,
    signal: AbortSignal,
  ): AsyncIterable<Uint8Array> {
    if (!(point instanceof ExportedSnapshot)) throw new Error("a snapshot point of another source");
    const request = { ...this.#request, signal: this.#until(signal) };
    return tableDigests({ ...request, table, point, comparison, scan });
  }

  /** What chooses rows by keys. */
  get keys(): KeySource {
    return {
      read: (table, texts) =>
        withPooledSession(this.#sessions, this.signal, "source", (client) =>
          readGivenKeys(client, table, texts),
        ),
      missing: (table, point, keys) => this.#missing(table, point, keys),
    };
  }

  async #missing(
    table: TableShape,
    point: SnapshotPoint,
    keys: readonly RowKey[],
  ): Promise<ReadonlySet<number>> {
    if (!(point instanceof ExportedSnapshot)) throw new Error("a snapshot point of another source");
    const lines: Uint8Array[] = [];
    // A chunk is the reader's until the next one only.
    for await (const chunk of missingKeyChunks({ ...this.#request, table, point }, keys))
      lines.push(chunk.slice());
    const text = Buffer.concat(lines).toString("latin1");
    return new Set(text.split("\n").filter(Boolean).map(Number));
  }

  /** Fires with the run's signal, too. */
  #until(signal: AbortSignal): AbortSignal {
    return AbortSignal.any([this.signal, signal]);
  }

  get #request() {
    const { connection, selection, permits, signal } = this;
    const changed = () => {
      this.#isStale = true;
    };
    return { connection, sessions: this.#sessions, permits, selection, signal, changed };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sessions[Symbol.asyncDispose]();
  }
}
