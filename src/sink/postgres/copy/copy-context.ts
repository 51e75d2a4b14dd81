// What the copy of one table needs of the sink: its sessions, what the sink knows of the table, and that it hears when the copy is durable.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import type { TableShape } from "../../../change/relation.ts";
import { whileWatched } from "../../../connection/session-watch.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import { toMillraceError } from "../../../errors/millrace-error.ts";
import type { CopyChunk, CopyMode } from "../../copy-sink.ts";
import type { SinkContext } from "../../sink.ts";
import type { ApplySession } from "../apply-session.ts";
import { lockForCopy } from "../bookkeeping/connector-lock.ts";
import type { CopyRefusals } from "../refusals/copy-refusals.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import type { SinkTables } from "../sink-tables.ts";
import type { CopySessions } from "./copy-sessions.ts";
import { CountedChunks } from "./counted-chunks.ts";
import { type CopyOutcome, copyIntoTarget, type KnownTable, type WholeCopy } from "./whole-copy.ts";

/** The same for all copies. */
export interface CopyingSink {
  readonly config: PostgresSinkConfig;
  readonly naming: TargetNaming;
  readonly connector: SinkContext;
  readonly tables: SinkTables;
  readonly apply: ApplySession;
  readonly sessions: CopySessions;
  readonly refusals: CopyRefusals;
}

interface CopySession {
  /** If the target refuses the copy, the table is set aside. */
  readonly isIntoTarget?: boolean;
  /** The session is idle because the source has not sent more yet. */
  readonly isWaiting?: () => boolean;
  /** Runs even if the copy was stopped. */
  readonly isLast?: boolean;
}

export class CopyContext {
  constructor(
    readonly sink: CopyingSink,
    readonly table: TableShape,
    private readonly stop: AbortSignal,
  ) {}

  /** Of the table as a whole. */
  get form(): TupleForm {
    const { refusals, tables } = this.sink;
    return refusals.isTraced(this.table.relation) ? "text" : tables.registry.catalog.copyForm(this.table);
  }

  /** A table that missed changes is replaced: some of its rows may be gone at the source. */
  modeFor(mode: CopyMode): CopyMode {
    return this.sink.tables.ledger.isVoid(this.table.relation) ? "replace" : mode;
  }

  known(): KnownTable {
    const { ledger, setAside } = this.sink.tables;
    const { relation } = this.table;
    return {
      shape: this.sink.tables.shapeToCopyInto(relation),
      targets: ledger.targetsWith(relation),
      nullColumn: setAside.nullColumnOf(relation),
      isTraced: this.sink.refusals.isTraced(relation),
      isCopied: ledger.holds(relation),
      isUnproved: ledger.isUnproved(relation),
    };
  }

  /** The copy is durable. */
  made(outcome: Omit<CopyOutcome, "rows">, isWhole = true): void {
    const { record, shape, isStillIncomplete, isHistoryBehind } = outcome;
    const { connector, apply, refusals } = this.sink;
    const { ledger, incomplete, shapes, setAside, registry, histories } = this.sink.tables;
    const { relation } = this.table;
    ledger.add(record);
    if (isWhole) incomplete.ahead.copiedWhole(relation.id);
    incomplete.copied(relation.id, isStillIncomplete);
    if (shape) shapes.add(shape);
    setAside.copied(relation);
    histories.copied(relation, isHistoryBehind);
    if (isHistoryBehind && histories.isAsked(relation)) connector.events.changed();
    refusals.copied(relation);
    apply.lockWaitEnded();
    registry.forgetShapes();
  }

  /** Runs `action` in the session that applies batches, between two of them. */
  betweenBatches<T>(action: (client: Client) => Promise<T>): Promise<T> {
    const { apply, refusals } = this.sink;
    return apply.guard((client) =>
      action(client).catch((error: unknown) => {
        throw refusals.described(this.table.relation, error);
      }),
    );
  }

  /** Runs `action` in a session and a transaction of its own, which has the connector's lock. */
  async inSession<T>(action: (client: Client) => Promise<T>, how: CopySession = {}): Promise<T> {
    const { isIntoTarget = false, isWaiting: isClientBusy = () => false, isLast = false } = how;
    const { connector, sessions, apply, refusals } = this.sink;
    const stop = isLast ? connector.signal : this.stop;
    try {
      const inTransaction = async (client: Client) => {
        await client.query("begin");
        await lockForCopy(client, connector);
        const result = await action(client);
        await client.query("commit");
        return result;
      };
      const result = await sessions.within(
        (client) => whileWatched({ ...apply.watched(client), isClientBusy }, () => inTransaction(client)),
        stop,
      );
      apply.lockWaitEnded();
      return result;
    } catch (error) {
      if (connector.signal.aborted || stop.aborted) throw error;
      const { relation } = this.table;
      throw isIntoTarget ? await refusals.refused(relation, error) : refusals.described(relation, error);
    }
  }

  /** Takes a chunk in a session of its own, and reports progress. */
  async takeCounted<Outcome extends { readonly rows: number }>(
    chunk: CopyChunk,
    isIntoTarget: boolean,
    take: (client: Client, chunk: CopyChunk) => Promise<Outcome>,
  ): Promise<Outcome> {
    const counted = new CountedChunks(chunk);
    this.sink.tables.histories.sawTime(chunk.timeUs);
    const outcome = await this.inSession((client) => take(client, { ...chunk, chunks: counted.chunks() }), {
      isIntoTarget,
      isWaiting: () => counted.isWaiting,
    });
    chunk.progress(outcome.rows, counted.bytes);
    return outcome;
  }

  /** Copies the table, or some of its rows, in one transaction. */
  async intoTarget(
    chunk: CopyChunk,
    mode: CopyMode,
    ofRows: Pick<WholeCopy, "removesAbsent" | "mayKeepAbsent" | "toHistory"> = {},
  ): Promise<CopyOutcome> {
    const { config, naming, connector } = this.sink;
    const known = this.known();
    const copying = this.takeCounted(chunk, true, (client, chunk) =>
      copyIntoTarget(client, config, naming, connector, { ...chunk, mode, ...ofRows }, known),
    );
    return await copying.catch((error: unknown) => this.#endUnlessKnown(error));
  }

  /**
   * If the connection broke, the copy may have been committed or not. This run must not go on as if it was not: it ends, and the next one
   * reads the truth.
   */
  #endUnlessKnown(error: unknown): never {
    const failure = toMillraceError(error);
    const { signal, events } = this.sink.connector;
    const isUnknown = failure.code === "sink_connection_lost" || failure.code === "sink_unreachable";
    if (isUnknown && !signal.aborted) events.failed(failure);
    throw error;
  }
}
