// A table of the sink at one place of the stream: a session whose transaction sees it as it was between two batches, and others that share its
// snapshot where several parts of the table are read at once.

import { type Client, escapeIdentifier } from "pg";
import type { TableSize } from "../../../change/page-range.ts";
import { qualifiedName } from "../../../change/relation.ts";
import { keysSetting, serverQuery } from "../../../comparison/digest-sql.ts";
import type {
  ComparedColumn,
  DigestScan,
  HashingServer,
  RowComparison,
} from "../../../comparison/row-comparison.ts";
import { describePostgresError } from "../../../connection/postgres-failure.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { RowChange, SinkRows } from "../../verify-sink.ts";
import type { ApplySession } from "../apply-session.ts";
import { type RepairedTable, repairStatement } from "./repair-statement.ts";
import { SnapshotSession } from "./snapshot-session.ts";

export interface OpenedTable extends RepairedTable {
  readonly repairBlocker: string | null;
  readonly areRepairedTogether: boolean;
  /** As `SinkRows` has it. */
  readonly haveRowsMoved: () => boolean;
}

export interface SnapshotContext {
  readonly stop: AbortSignal;
  readonly apply: ApplySession;
  /** Opens another session in a transaction that has this snapshot, with the lock on the table. */
  readonly openAnother: (snapshot: string) => Promise<Client>;
}

export class SinkSnapshot implements SinkRows {
  readonly #sessions: SnapshotSession[];
  readonly #opening = new Set<Promise<SnapshotSession>>();

  private constructor(
    first: SnapshotSession,
    private readonly table: OpenedTable,
    readonly server: HashingServer,
    readonly size: TableSize | null,
    private readonly snapshot: string,
    private readonly context: SnapshotContext,
  ) {
    this.#sessions = [first];
  }

  /** Takes `client` over, in the transaction whose snapshot it is. */
  static async of(client: Client, table: OpenedTable, context: SnapshotContext): Promise<SinkSnapshot> {
    const [server] = (await client.query<HashingServer>(serverQuery)).rows;
    const [size] = (await client.query<TableSize>(sizeQuery, [table.target.oid])).rows;
    const exported = await client.query<{ name: string }>("select pg_export_snapshot() as name");
    const first = new SnapshotSession(client, context.stop, context.apply);
    const snapshot = exported.rows[0]!.name;
    return new SinkSnapshot(first, table, server!, size?.pages ? size : null, snapshot, context);
  }

  get columns(): readonly ComparedColumn[] {
    return this.table.columns;
  }

  get repairBlocker(): string | null {
    return this.table.repairBlocker;
  }

  get areRepairedTogether(): boolean {
    return this.table.areRepairedTogether;
  }

  async *read(comparison: RowComparison, scan: DigestScan): AsyncGenerator<Uint8Array> {
    let session: SnapshotSession | null = null;
    try {
      session = this.#takeIdle() ?? (await this.#takeAnother());
      yield* session.read(comparison, scan, this.#digested());
    } catch (error) {
      throw this.#described(error);
    } finally {
      if (session) session.isTaken = false;
    }
  }

  haveRowsMoved(): boolean {
    return this.table.haveRowsMoved();
  }

  statement(change: RowChange): string {
    return repairStatement(this.table, change);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#opening);
    await Promise.all(this.#sessions.map((session) => session[Symbol.asyncDispose]()));
  }

  #takeIdle(): SnapshotSession | null {
    const idle = this.#sessions.find(({ isTaken }) => !isTaken) ?? null;
    if (idle) idle.isTaken = true;
    return idle;
  }

  async #takeAnother(): Promise<SnapshotSession> {
    const { stop, apply, openAnother } = this.context;
    const opening = openAnother(this.snapshot).then((client) => {
      const session = new SnapshotSession(client, stop, apply);
      session.isTaken = true;
      // Kept in any case, so that it is closed in the end.
      this.#sessions.push(session);
      return session;
    });
    this.#opening.add(opening);
    try {
      return await opening;
    } finally {
      this.#opening.delete(opening);
    }
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
    if (this.context.stop.aborted) return this.context.stop.reason;
    if (!this.#sessions.some(({ isBlocking }) => isBlocking)) return describePostgresError(error, "sink");
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
