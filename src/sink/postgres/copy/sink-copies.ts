// Takes copies of tables into the sink, several at once, each in a session of its own. Decides whether a copy is incremental or the stream
// waits for it, and updates what the sink knows of a table once its copy is durable.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import { chunkedCopyFingerprint } from "../../../change/copy-fingerprint.ts";
import type { Relation, TableShape } from "../../../change/relation.ts";
import { hasOneSession } from "../../../connection/has-one-session.ts";
import { whileWatched } from "../../../connection/session-watch.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import { toMillraceError } from "../../../errors/millrace-error.ts";
import type { CopyChunk, CopyMode, CopySink, StreamDuring, TableCopy, TellPhase } from "../../copy-sink.ts";
import type { SinkContext } from "../../sink.ts";
import { CopyRefusals } from "../refusals/copy-refusals.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import type { SinkTables } from "../sink-tables.ts";
import type { ApplySession } from "./apply-session.ts";
import { beginIncremental, type IncrementalCopyContext } from "./begin-incremental.ts";
import { BlockingCopy } from "./blocking-copy.ts";
import { CopiesInApplySession, type CopySessions, PooledCopySessions } from "./copy-sessions.ts";
import { CountedChunks } from "./counted-chunks.ts";
import { beginRanges, copyRange, joinRanges, type RangeCopy } from "./range-copy.ts";
import { type CopyOutcome, copyIntoTarget, type KnownTable, type WholeCopy } from "./whole-copy.ts";

export class SinkCopies implements CopySink, AsyncDisposable {
  readonly #sessions: CopySessions;
  readonly #refusals: CopyRefusals;

  constructor(
    private readonly config: PostgresSinkConfig,
    private readonly naming: TargetNaming,
    private readonly context: SinkContext,
    private readonly tables: SinkTables,
    private readonly apply: ApplySession,
  ) {
    this.#refusals = new CopyRefusals(config, naming, context, tables, apply);
    this.#sessions = hasOneSession(config.connection)
      ? new CopiesInApplySession(apply.client, context)
      : new PooledCopySessions(config, context);
  }

  async begin(
    table: TableShape,
    mode: CopyMode,
    stream: StreamDuring,
    stop: AbortSignal,
  ): Promise<TableCopy> {
    // The keys that it has touched are not recorded, and it may hold locks.
    this.apply.giveUpInProgress();
    const incremental = stream === "runs" ? await this.#beginIncremental(table, mode, stop) : null;
    return incremental ?? (await this.#beginBlocking(table, mode, stop));
  }

  rowsForm(table: TableShape): TupleForm {
    return this.#wholeForm(table);
  }

  async takeRows(rows: CopyChunk, absent: "stay" | "removed" = "stay"): Promise<void> {
    this.apply.giveUpInProgress();
    const { table, part } = rows;
    const { relation } = table;
    await this.apply.guard((client) => this.tables.takeName(client, relation));
    const before = this.tables.ledger.pointOf(relation.id);
    const removesAbsent = absent === "removed";
    const toHistory = this.tables.histories.rowsCopied(relation);
    const outcome = await this.#intoTarget(rows, "merge", this.context.signal, { removesAbsent, toHistory });
    this.#made(relation, outcome, false);
    const keys = part?.kind === "rows" ? part.keys : [];
    this.tables.incomplete.ahead.copied(relation.id, keys, before, this.apply.resumeLsn());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sessions[Symbol.asyncDispose]();
  }

  /** Null: the table cannot be copied incrementally. */
  async #beginIncremental(table: TableShape, mode: CopyMode, stop: AbortSignal): Promise<TableCopy | null> {
    const { relation } = table;
    const isFirst = mode === "initial";
    const isPossible = !hasOneSession(this.config.connection) && !this.#refusals.isTraced(relation);
    if (!isPossible || (isFirst && !this.context.makesCopies)) return null;
    return await beginIncremental(
      this.#incrementalContext(relation, stop),
      table,
      this.#modeOf(table, mode),
      isFirst,
    );
  }

  #incrementalContext(relation: Relation, stop: AbortSignal): IncrementalCopyContext {
    const { context, naming, tables, apply } = this;
    return {
      ...{ connector: context, naming, tables },
      form: apply.form,
      resumeLsn: apply.resumeLsn,
      betweenBatches: (action) =>
        apply.guard((client) =>
          action(client).catch((error: unknown) => {
            throw this.#refusals.described(relation, error);
          }),
        ),
      inSession: (action, { isWaiting: isClientBusy = () => false, isLast = false } = {}) =>
        this.#inSession(relation, false, isLast ? context.signal : stop, (client) =>
          whileWatched({ ...apply.watched(client), isClientBusy }, () => action(client)),
        ),
      known: () => this.#known(relation),
      made: (outcome) => this.#made(relation, outcome, true),
    };
  }

  async #beginBlocking(table: TableShape, mode: CopyMode, stop: AbortSignal): Promise<TableCopy> {
    const { relation } = table;
    const { tables, apply } = this;
    await apply.guard((client) => tables.interrupted.drop(client, relation.id));
    // `prepare` has already settled the names of tables that get their first copy.
    if (mode !== "initial") await apply.guard((client) => tables.takeName(client, relation));
    return new BlockingCopy({
      form: this.#wholeForm(table),
      divide: () => this.#divide(table),
      range: (chunk, range) => this.#takeRange(chunk, range, stop),
      join: async (phase) => {
        const outcome = await this.#join(table, mode, stop, phase);
        tables.records.ended(relation.id);
        return outcome;
      },
      whole: (chunk) => this.#intoTarget(chunk, this.#modeOf(table, mode), stop),
      made: (outcome) => this.#made(relation, outcome, true),
    });
  }

  /** Begins or resumes ranges in a side table. Null: the table must be copied whole. */
  async #divide(table: TableShape) {
    const { records } = this.tables;
    const { id } = table.relation;
    if (table.isPartitioned || this.naming.isShared(table.relation)) return null;
    const copy = this.#rangeCopy(table);
    await this.apply.guard((client) => records.reload(client, id));
    // Without a stream, nothing brings the changes between an earlier run's points and this one's.
    const known = this.apply.hasStream() ? records.of(id, "side") : null;
    // Only a copy as a whole can report which row was refused.
    if (this.#refusals.isTraced(table.relation) && !known?.ranges.length) return null;
    const begun = await this.#inSession(table.relation, false, this.context.signal, (client) =>
      whileWatched(this.apply.watched(client), () => beginRanges(client, copy, known)),
    );
    if (begun === null) records.ended(id);
    else if (!begun.isResumed) records.begun(id, "side", chunkedCopyFingerprint(table));
    return begun && { form: begun.form, ranges: records.of(id, "side")?.ranges ?? [] };
  }

  async #takeRange(
    chunk: CopyChunk,
    range: Parameters<typeof copyRange>[3],
    stop: AbortSignal,
  ): Promise<void> {
    const { relation } = chunk.table;
    const copy = this.#rangeCopy(chunk.table);
    const copied = await this.#takeCounted(chunk, false, stop, (client, chunk) =>
      copyRange(client, copy, chunk, range),
    );
    this.tables.records.added(relation.id, copied);
    this.apply.lockWaitEnded();
  }

  #join(table: TableShape, mode: CopyMode, stop: AbortSignal, phase: TellPhase): Promise<CopyOutcome> {
    const { relation } = table;
    const copy = { ...this.#rangeCopy(table), mode: this.#modeOf(table, mode), phase };
    const ranges = this.tables.records.of(relation.id, "side")?.ranges ?? [];
    return this.#inSession(relation, true, stop, (client) =>
      whileWatched(this.apply.watched(client), () =>
        joinRanges(client, this.config, copy, ranges, this.#known(relation)),
      ),
    );
  }

  /** Copies the table, or some of its rows, in one transaction. */
  async #intoTarget(
    chunk: CopyChunk,
    mode: CopyMode,
    stop: AbortSignal,
    ofRows: Pick<WholeCopy, "removesAbsent" | "toHistory"> = {},
  ): Promise<CopyOutcome> {
    const known = this.#known(chunk.table.relation);
    const copying = this.#takeCounted(chunk, true, stop, (client, chunk) =>
      copyIntoTarget(client, this.config, this.naming, this.context, { ...chunk, mode, ...ofRows }, known),
    );
    return await copying.catch((error: unknown) => this.#endUnlessKnown(error));
  }

  /**
   * If the connection broke, the copy may have been committed or not. This run must not go on as if it was not: it ends, and the next one
   * reads the truth.
   */
  #endUnlessKnown(error: unknown): never {
    const failure = toMillraceError(error);
    const isOfSink = failure.code.startsWith("sink_") && failure.retry === "transient";
    if (isOfSink && !this.context.signal.aborted) this.context.events.failed(failure);
    throw error;
  }

  #wholeForm(table: TableShape): TupleForm {
    return this.#refusals.isTraced(table.relation) ? "text" : this.tables.registry.copyForm(table);
  }

  #made(
    relation: Relation,
    { record, shape, isStillIncomplete, isHistoryBehind }: Omit<CopyOutcome, "rows">,
    isWhole: boolean,
  ): void {
    const { ledger, incomplete, shapes, setAside, registry, histories } = this.tables;
    ledger.add(record);
    if (isWhole) incomplete.ahead.copiedWhole(relation.id);
    incomplete.copied(relation.id, isStillIncomplete);
    if (shape) shapes.add(shape);
    setAside.copied(relation);
    histories.copied(relation, isHistoryBehind);
    if (isHistoryBehind && histories.isAsked(relation)) this.context.events.changed();
    this.#refusals.copied(relation);
    this.apply.lockWaitEnded();
    registry.forgetShapes();
  }

  /** A table that missed changes is replaced: some of its rows may be gone at the source. */
  #modeOf({ relation }: TableShape, mode: CopyMode): CopyMode {
    return this.tables.ledger.isVoid(relation) ? "replace" : mode;
  }

  #known(relation: Relation): KnownTable {
    const { ledger, setAside } = this.tables;
    return {
      shape: this.tables.shapeToCopyInto(relation),
      targets: ledger.targetsWith(relation),
      nullColumn: setAside.nullColumnOf(relation),
      isTraced: this.#refusals.isTraced(relation),
      isCopied: ledger.holds(relation),
      isUnproved: ledger.isUnproved(relation),
    };
  }

  #rangeCopy(table: TableShape): RangeCopy {
    return { connector: this.context, table, target: this.naming.target(table.relation) };
  }

  /** Takes a chunk in a session of its own and reports progress. `isIntoTarget`: see `#inSession`. */
  async #takeCounted<Outcome extends { readonly rows: number }>(
    chunk: CopyChunk,
    isIntoTarget: boolean,
    stop: AbortSignal,
    take: (client: Client, chunk: CopyChunk) => Promise<Outcome>,
  ): Promise<Outcome> {
    const counted = new CountedChunks(chunk);
    const isClientBusy = () => counted.isWaiting;
    this.tables.histories.isLaterThan(chunk.timeUs);
    const outcome = await this.#inSession(chunk.table.relation, isIntoTarget, stop, (client) =>
      whileWatched({ ...this.apply.watched(client), isClientBusy }, () =>
        take(client, { ...chunk, chunks: counted.chunks() }),
      ),
    );
    chunk.progress(outcome.rows, counted.bytes);
    return outcome;
  }

  /** `isIntoTarget`: if the target refuses the copy, the table is set aside. */
  async #inSession<T>(
    relation: Relation,
    isIntoTarget: boolean,
    stop: AbortSignal,
    action: (client: Client) => Promise<T>,
  ): Promise<T> {
    try {
      const result = await this.#sessions.within(action, stop);
      this.apply.lockWaitEnded();
      return result;
    } catch (error) {
      const { signal } = this.context;
      if (signal.aborted || stop.aborted) throw error;
      throw isIntoTarget
        ? await this.#refusals.refused(relation, error)
        : this.#refusals.described(relation, error);
    }
  }
}
