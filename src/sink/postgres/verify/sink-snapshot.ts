// A table of the sink at one place of the stream: a session whose transaction sees it as it was between two batches.

import { type Client, escapeIdentifier } from "pg";
import type { TableSize } from "../../../change/page-range.ts";
import { qualifiedName } from "../../../change/relation.ts";
import {
  digestSql,
  keysSetting,
  scanSettings,
  scanValues,
  serverQuery,
} from "../../../comparison/digest-sql.ts";
import type {
  ComparedColumn,
  DigestScan,
  HashingServer,
  RowComparison,
} from "../../../comparison/row-comparison.ts";
import { copyOut } from "../../../connection/copy/copy-out.ts";
import { closeClient, destroyClient } from "../../../connection/postgres-client.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import { watchSession } from "../../../connection/session-watch.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { RowChange, SinkRows } from "../../verify-sink.ts";
import type { ApplySession } from "../copy/apply-session.ts";
import { type RepairedTable, repairStatement } from "./repair-statement.ts";

/** Whoever waits for a lock that this transaction holds would wait until all rows are read: the stream itself, at a TRUNCATE. */
const blockedQuery = `
select from pg_stat_activity a join pg_locks l on l.pid = a.pid and not l.granted and l.relation is not null
where a.wait_event_type = 'Lock' and $1 = any (pg_blocking_pids(a.pid)) limit 1`;

export interface OpenedTable extends RepairedTable {
  readonly repairBlocker: string | null;
}

export class SinkSnapshot implements SinkRows {
  #isReading = false;
  #isClientBusy = false;
  #isBlocking = false;
  #closed: Promise<void> | null = null;
  readonly #watch: Disposable;
  readonly #abort: () => void;

  private constructor(
    private readonly client: Client,
    private readonly table: OpenedTable,
    readonly server: HashingServer,
    readonly size: TableSize | null,
    private readonly stop: AbortSignal,
    apply: ApplySession,
  ) {
    this.#abort = () => destroyClient(client);
    stop.addEventListener("abort", this.#abort, { once: true });
    this.#watch = watchSession({
      ...apply.watched(client),
      isClientBusy: () => this.#isClientBusy || !this.#isReading,
      onCheck: async (observer, pid) => {
        if ((await observer.query(blockedQuery, [pid])).rowCount === 0) return;
        this.#isBlocking = true;
        destroyClient(client);
      },
    });
  }

  /** Takes `client` over, in the transaction whose snapshot it is. */
  static async of(
    client: Client,
    table: OpenedTable,
    stop: AbortSignal,
    apply: ApplySession,
  ): Promise<SinkSnapshot> {
    const [server] = (await client.query<HashingServer>(serverQuery)).rows;
    const [size] = (await client.query<TableSize>(sizeQuery, [table.target.oid])).rows;
    return new SinkSnapshot(client, table, server!, size?.pages ? size : null, stop, apply);
  }

  get columns(): readonly ComparedColumn[] {
    return this.table.columns;
  }

  get repairBlocker(): string | null {
    return this.table.repairBlocker;
  }

  async *read(comparison: RowComparison, scan: DigestScan): AsyncGenerator<Uint8Array> {
    const { client } = this;
    if (this.#isReading) throw new Error("the rows are being read already");
    this.#isReading = true;
    let isWhole = false;
    try {
      await client.query("savepoint scan");
      await client.query(scanSettings);
      if (scan.kind === "buckets" && scan.range) await client.query("set local enable_seqscan = off");
      for (const { name, value } of scanValues(scan))
        await client.query("select set_config($1, $2, true)", [name, value]);
      const sql = digestSql(comparison, scan, this.#digested());
      for await (const chunk of copyOut(client, `copy (${sql}) to stdout (format binary)`)) {
        this.#isClientBusy = true;
        yield chunk;
        this.#isClientBusy = false;
      }
      await client.query("rollback to scan; release scan");
      isWhole = true;
    } catch (error) {
      throw this.#described(error);
    } finally {
      this.#isReading = false;
      this.#isClientBusy = false;
      if (!isWhole) destroyClient(client);
    }
  }

  statement(change: RowChange): string {
    return repairStatement(this.table, change);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.stop.removeEventListener("abort", this.#abort);
    this.#watch[Symbol.dispose]();
    this.#closed ??= closeClient(this.client);
    return this.#closed;
  }

  #digested() {
    const { target, relation } = this.table;
    const nameOf = (number: number) =>
      relation.columns.find((column) => column.number === number)?.name ?? "";
    const key = relation.key.map((at) => relation.columns[at]!.name);
    const types = key.map(
      (name) => target.columns.find((column) => column.name === name)?.plainType ?? "text",
    );
    const wanted = types.map((type, i) => `(wanted.value->>${i})::${type}`).join(", ");
    const keys = `json_array_elements(current_setting('${keysSetting}')::json) as wanted(value)`;
    return {
      from: target.ownRows,
      value: ({ number }: ComparedColumn) => escapeIdentifier(nameOf(number)),
      hasWantedKey: `(${key.map(escapeIdentifier).join(", ")}) in (select ${wanted} from ${keys})`,
    };
  }

  #described(error: unknown): unknown {
    if (this.stop.aborted) return this.stop.reason;
    if (!this.#isBlocking) return describePostgresError(error, "sink");
    return new MillraceError(
      "table_changed",
      `Somebody else waits for a lock on table ${qualifiedName(this.table.target.target)} at the sink, maybe the stream itself: its rows are compared again later.`,
    );
  }
}

/** Only heap tables have pages that can be read one by one. */
const sizeQuery = `
select (pg_relation_size(c.oid) / current_setting('block_size')::int8)::float8 as pages, pg_table_size(c.oid)::float8 as bytes
from pg_class c join pg_am am on am.oid = c.relam
where c.oid = $1 and c.relkind = 'r' and am.amname = 'heap'`;
