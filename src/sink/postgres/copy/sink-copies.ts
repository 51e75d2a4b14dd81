// Takes copies of tables into the sink, several at once. Decides whether a copy is incremental or the stream waits for it.

import type { TupleForm } from "../../../change/change-batch.ts";
import type { TableShape } from "../../../change/relation.ts";
import { hasOneSession } from "../../../connection/has-one-session.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { CopyChunk, CopyMode, CopySink, StreamDuring, TableCopy } from "../../copy-sink.ts";
import type { SinkContext } from "../../sink.ts";
import type { ApplySession } from "../apply-session.ts";
import { CopyRefusals } from "../refusals/copy-refusals.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import type { SinkTables } from "../sink-tables.ts";
import { beginIncremental } from "./begin-incremental.ts";
import { beginBlocking } from "./blocking-copy.ts";
import { CopyContext, type CopyingSink } from "./copy-context.ts";
import { CopiesInApplySession, PooledCopySessions } from "./copy-sessions.ts";

export class SinkCopies implements CopySink, AsyncDisposable {
  readonly #sink: CopyingSink;
  /** The stream waits for rows that come by their keys: they need no other session, and a bounded server may have none left. */
  readonly #ofRows: CopyingSink;

  constructor(
    config: PostgresSinkConfig,
    naming: TargetNaming,
    private readonly connector: SinkContext,
    private readonly tables: SinkTables,
    private readonly apply: ApplySession,
  ) {
    const refusals = new CopyRefusals(config, naming, connector, tables, apply);
    const own = new CopiesInApplySession(apply.client, connector);
    const sessions = hasOneSession(config.connection) ? own : new PooledCopySessions(config, connector);
    this.#sink = { config, naming, connector, tables, apply, sessions, refusals };
    this.#ofRows = { ...this.#sink, sessions: own };
  }

  async begin(
    table: TableShape,
    mode: CopyMode,
    stream: StreamDuring,
    stop: AbortSignal,
  ): Promise<TableCopy> {
    // The keys that a transaction in progress has touched are not recorded, and it may hold locks.
    this.apply.giveUpInProgress();
    const context = new CopyContext(this.#sink, table, stop);
    const incremental = stream === "runs" ? await beginIncremental(context, mode) : null;
    return incremental ?? (await beginBlocking(context, mode, stream));
  }

  rowsForm(table: TableShape): TupleForm {
    return new CopyContext(this.#ofRows, table, this.connector.signal).form;
  }

  async takeRows(rows: CopyChunk, absent: "stay" | "removed" = "stay"): Promise<void> {
    this.apply.giveUpInProgress();
    const { table, part } = rows;
    const { relation } = table;
    await this.apply.guard((client) => this.tables.takeName(client, relation));
    const before = this.tables.ledger.pointOf(relation.id);
    const removesAbsent = absent === "removed";
    const toHistory = this.tables.histories.rowsCopied(relation);
    const context = new CopyContext(this.#ofRows, table, this.connector.signal);
    context.made(await context.intoTarget(rows, "merge", { removesAbsent, toHistory }), false);
    const keys = part?.kind === "rows" ? part.keys : [];
    this.tables.incomplete.ahead.copied(relation.id, keys, before, this.apply.resumeLsn());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sink.sessions[Symbol.asyncDispose]();
  }
}
