// Copies of tables on their way into the sink, several side by side, each in a session of its own beside the one that applies batches:
// whole tables, and ranges of large ones. What is known of the tables is told when a copy is durable.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import { dividedMark } from "../../../change/divided-mark.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { PageRange } from "../../../change/page-range.ts";
import type { Relation, TableShape } from "../../../change/relation.ts";
import { hasOneSession } from "../../../connection/has-one-session.ts";
import { type WatchedSession, whileWatched } from "../../../connection/session-watch.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import { toMillraceError } from "../../../errors/millrace-error.ts";
import type { BegunCopy, CopyBeside, CopyRequest, SinkContext } from "../../sink.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import type { SinkTables } from "../sink-tables.ts";
import { CopiesBegunBeside, type CopySteps } from "./copies-begun-beside.ts";
import { CopyRefusals } from "./copy-refusals.ts";
import { CopiesInApplySession, type CopySessions, PooledCopySessions } from "./copy-sessions.ts";
import { watchedCopy } from "./copy-watch.ts";
import { beginRanges, copyRange, joinRanges, type RangeCopy } from "./range-copy.ts";
import { type CopyOutcome, copyIntoTarget, type KnownTable } from "./table-copy.ts";

/** What copies need of the session that applies. */
export interface ApplySession {
  /** Runs `action` in it; no batch is being applied. */
  guard<T>(action: (client: Client) => Promise<T>): Promise<T>;
  /** It is idle. */
  readonly client: () => Client;
  watched(client: Client): WatchedSession;
  /** What the stream has brought before it is durable. */
  readonly resumeLsn: () => Lsn;
  /** Applies a piece of what is kept of a table's changes. Returns whether more is. */
  applyHeld(tableId: number): Promise<boolean>;
  /** No copy waits for a lock any longer. */
  readonly wentOn: () => void;
  /** In which batches come. */
  readonly form: () => TupleForm;
  /** A transaction in progress that is applied beside. */
  readonly giveUpInProgress: () => void;
}

export class SinkCopies implements AsyncDisposable {
  readonly #sessions: CopySessions;
  readonly #refusals: CopyRefusals;
  readonly #besides: CopiesBegunBeside;

  constructor(
    private readonly config: PostgresSinkConfig,
    private readonly naming: TargetNaming,
    private readonly context: SinkContext,
    private readonly tables: SinkTables,
    private readonly apply: ApplySession,
  ) {
    this.#refusals = new CopyRefusals(config, naming, context, tables, apply);
    this.#besides = new CopiesBegunBeside(
      config,
      naming,
      context,
      tables,
      apply,
      this.#refusals,
      this.#steps,
    );
    this.#sessions = hasOneSession(config.connection)
      ? new CopiesInApplySession(apply.client, context)
      : new PooledCopySessions(config, context);
  }

  /** Its last copy may have ended because a row was refused. */
  isTraced(relation: Relation): boolean {
    return this.#refusals.isTraced(relation);
  }

  async begin(table: TableShape, goesOn: boolean): Promise<BegunCopy | null> {
    const { divided } = this.tables;
    const { id } = table.relation;
    if (table.isPartitioned || this.naming.isShared(table.relation)) return null;
    const copy = this.#rangeCopy(table);
    const held = goesOn ? divided.of(id) : null;
    // A row that is refused is told where the table is copied whole.
    if (this.isTraced(table.relation) && !held?.ranges.length) return null;
    const begun = await this.#inSession(table.relation, false, (client) =>
      whileWatched(this.apply.watched(client), () => beginRanges(client, copy, held)),
    );
    if (begun === null) divided.ended(id);
    else if (!begun.goesOn) divided.begun(id, dividedMark(table));
    if (begun === null) return null;
    const ranges = divided.of(id)?.ranges ?? [];
    return { form: begun.form, ranges, rows: ranges.reduce((sum, { rows }) => sum + rows, 0) };
  }

  /** Between two batches. Null: the table is to be copied between two batches as well. */
  beginBeside(table: TableShape, mode: CopyRequest["mode"], stop: AbortSignal): Promise<CopyBeside | null> {
    return this.#besides.begin(table, mode, stop);
  }

  /** In a session beside the one that applies, or in that where there is no other. */
  async #inCopySession<T>(
    relation: Relation,
    action: (client: Client) => Promise<T>,
    stop: AbortSignal | undefined,
    isWaiting: () => boolean = () => false,
  ): Promise<T> {
    const result = await this.#inSession(
      relation,
      false,
      (client) => whileWatched({ ...this.apply.watched(client), isOurTurn: isWaiting }, () => action(client)),
      stop,
    );
    this.apply.wentOn();
    return result;
  }

  get #steps(): CopySteps {
    return {
      inSession: (...args) => this.#inCopySession(...args),
      passing: async (request, copy, stop) => {
        const outcome = await this.#inSession(
          request.table.relation,
          false,
          (client) => watchedCopy(this.apply.watched(client), request, (counted) => copy(client, counted)),
          stop,
        );
        this.apply.wentOn();
        return outcome;
      },
      divide: (table) => this.begin(table, true),
      whole: (client, request) => this.#copyWhole(client, request),
      rangeCopy: (table) => this.#rangeCopy(table),
      join: (client, table) => this.#join(client, table),
      known: (relation) => this.#known(relation),
      modeOf: (table) => this.#modeOf({ table, mode: "initial" }),
      made: (relation, outcome) => this.#made(relation, outcome),
      applyKept: (relation) => this.#applyPiece(relation.id),
    };
  }

  async take(request: CopyRequest): Promise<void> {
    const { table, part } = request;
    const { relation } = table;
    if (part?.kind === "range") return await this.#takeRange(request, part.range);
    // First copies come by themselves, once `prepare` has seen to the names.
    if (request.mode !== "initial") {
      await this.apply.guard((client) => this.tables.takeName(client, relation));
    }
    const before = this.tables.ledger.pointOf(relation.id);
    const copying = this.#inSession(relation, true, (client) =>
      watchedCopy(this.apply.watched(client), request, (counted) => this.#copyWhole(client, counted)),
    );
    const outcome = await copying.catch((error: unknown) => this.#endUnlessKnown(error));
    this.#made(relation, outcome, part === undefined);
    if (part) this.tables.owed.ahead.copied(relation.id, part.keys, before, this.apply.resumeLsn());
    if (outcome.record === null) this.#besides.tookPart(relation, request.lsn);
    if (part) this.tables.touched.followed(relation);
    else await this.#applyKept(relation);
  }

  /** Whether a copy is there that had no answer to its COMMIT only the next run knows: changes are not to be applied to it as if it were not. */
  #endUnlessKnown(error: unknown): never {
    const failure = toMillraceError(error);
    const isOfSink = failure.code.startsWith("sink_") && failure.retry === "transient";
    if (isOfSink && !this.context.signal.aborted) this.context.events.failed(failure);
    throw error;
  }

  #copyWhole(client: Client, request: CopyRequest): Promise<CopyOutcome> {
    const whole = { ...request, mode: this.#modeOf(request) };
    const known = this.#known(request.table.relation);
    return copyIntoTarget(client, this.config, this.naming, this.context, whole, known);
  }

  /** Between two batches: a copy that was begun beside the stream has been made here. */
  async #applyKept({ id }: Relation): Promise<void> {
    while (this.tables.held.has(id) && (await this.#applyPiece(id))) {}
  }

  /** Rows that were owed meanwhile are due with the last piece, and the stream may rest. */
  async #applyPiece(tableId: number): Promise<boolean> {
    const isMore = await this.apply.applyHeld(tableId);
    if (!isMore && this.tables.owed.has(tableId)) this.context.events.mended();
    return isMore;
  }

  /** All ranges are there. */
  async end(table: TableShape): Promise<void> {
    const { relation } = table;
    const outcome = await this.#inSession(relation, true, (client) =>
      whileWatched(this.apply.watched(client), () => this.#join(client, table)),
    );
    this.tables.divided.ended(relation.id);
    this.#made(relation, outcome);
    await this.#applyKept(relation);
  }

  #join(client: Client, table: TableShape): Promise<CopyOutcome> {
    const copy = { ...this.#rangeCopy(table), mode: this.#modeOf({ table, mode: "initial" }) };
    const ranges = this.tables.divided.of(table.relation.id)?.ranges ?? [];
    return joinRanges(client, this.config, copy, ranges, this.#known(table.relation));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sessions[Symbol.asyncDispose]();
  }

  async #takeRange(request: CopyRequest, range: PageRange): Promise<void> {
    const { relation } = request.table;
    const copy = this.#rangeCopy(request.table);
    const copied = await this.#inSession(relation, false, (client) =>
      watchedCopy(this.apply.watched(client), request, (counted) => copyRange(client, copy, counted, range)),
    );
    this.tables.divided.added(relation.id, copied);
    this.apply.wentOn();
  }

  #made(relation: Relation, { record, shape, owesMore }: Omit<CopyOutcome, "rows">, isWhole = true): void {
    if (record) this.tables.ledger.add(record);
    if (isWhole) this.tables.touched.spoil(relation.id, "was copied anew");
    if (isWhole) this.tables.owed.ahead.copiedWhole(relation.id);
    this.tables.owed.brought(relation.id, !owesMore);
    if (shape) this.tables.shapes.add(shape);
    if (record) this.tables.setAside.copied(relation);
    this.#refusals.copied(relation);
    this.apply.wentOn();
    this.tables.registry.forgetShapes();
  }

  #modeOf({ table, mode, part }: Pick<CopyRequest, "table" | "mode" | "part">): CopyRequest["mode"] {
    // Some rows never stand for all.
    return part ? mode : this.tables.ledger.isVoid(table.relation) ? "replace" : mode;
  }

  #known(relation: Relation): KnownTable {
    return {
      shape: this.tables.shapeToCopyInto(relation),
      targets: this.tables.ledger.targetsWith(relation),
      nullColumn: this.tables.setAside.nullColumnOf(relation),
      isTraced: this.isTraced(relation),
      keptMark: this.tables.held.countedBy(relation),
      isCopied: this.tables.ledger.holds(relation),
    };
  }

  #rangeCopy(table: TableShape): RangeCopy {
    const target = this.naming.target(table.relation);
    const side = this.tables.divided.sideTable(table.relation.id);
    return { connector: this.context, table, target, side };
  }

  /** `isIntoTarget`: a failure may be one of the sink's table, which then waits for a change. */
  async #inSession<T>(
    relation: Relation,
    isIntoTarget: boolean,
    action: (client: Client) => Promise<T>,
    stop = this.context.signal,
  ): Promise<T> {
    try {
      return await this.#sessions.within(action, stop);
    } catch (error) {
      const { signal } = this.context;
      if (signal.aborted || stop.aborted) throw error;
      const told = this.#refusals.told(relation, error);
      if (isIntoTarget) await this.#refusals.setAside(relation, error);
      throw told;
    }
  }
}
