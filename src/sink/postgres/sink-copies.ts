// Copies of tables on their way into the sink, several side by side, each in a session of its own beside the one that applies batches:
// whole tables, and ranges of large ones. What is known of the tables is told when a copy is durable.

import type { Client } from "pg";
import { dividedMark } from "../../change/divided-mark.ts";
import type { Lsn } from "../../change/lsn.ts";
import type { PageRange } from "../../change/page-range.ts";
import type { Relation, TableShape } from "../../change/relation.ts";
import { type WatchedSession, whileWatched } from "../../connection/session-watch.ts";
import { Turns } from "../../connection/turns.ts";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import type { MillraceError } from "../../errors/millrace-error.ts";
import type { BegunCopy, CopyBeside, CopyRequest, SinkContext } from "../sink.ts";
import { beginCopyBeside } from "./copies-beside.ts";
import {
  CopiesInApplySession,
  type CopySessions,
  hasOneSession,
  PooledCopySessions,
} from "./copy-sessions.ts";
import { watchedCopy } from "./copy-watch.ts";
import { MigrationRefused } from "./migration-refused.ts";
import { isValueRefused, misfitRefused } from "./misfit-type.ts";
import { mendDenial } from "./privileges.ts";
import { beginRanges, copyRange, joinRanges, type RangeCopy } from "./range-copy.ts";
import { describeRefusedCopy } from "./refused-rows.ts";
import { refusedNull } from "./remedy.ts";
import type { SinkTables } from "./sink-tables.ts";
import { type CopyOutcome, copyIntoTarget, type KnownTable } from "./table-copy.ts";
import type { TargetNaming } from "./target-naming.ts";

/** What copies need of the session that applies. */
export interface ApplySession {
  /** Runs `action` in it; no batch is being applied. */
  guard<T>(action: (client: Client) => Promise<T>): Promise<T>;
  /** It is idle. */
  readonly client: () => Client;
  watched(client: Client): WatchedSession;
  /** What the stream has brought before it is durable. */
  readonly resumeLsn: () => Lsn;
  /** No copy waits for a lock any longer. */
  readonly wentOn: () => void;
}

const refusals: ReadonlySet<ErrorCode> = new Set(["sink_rejected_rows", "sink_schema_mismatch"]);

export class SinkCopies implements AsyncDisposable {
  readonly #sessions: CopySessions;
  /** Tables whose last copy failed, by OID at the source. */
  readonly #refused = new Set<number>();
  readonly #refusals = new Turns();

  constructor(
    private readonly config: PostgresSinkConfig,
    private readonly naming: TargetNaming,
    private readonly context: SinkContext,
    private readonly tables: SinkTables,
    private readonly apply: ApplySession,
  ) {
    this.#sessions = hasOneSession(config)
      ? new CopiesInApplySession(apply.client, context)
      : new PooledCopySessions(config, context);
  }

  /** Its last copy may have ended because a row was refused. */
  isTraced({ id }: Relation): boolean {
    return this.context.isAfterRefusal === true || this.#refused.has(id);
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
  async beginBeside(
    table: TableShape,
    mode: "merge" | "replace",
    stop: AbortSignal,
  ): Promise<CopyBeside | null> {
    const { relation } = table;
    // A row that is refused is told where the table is copied whole.
    if (this.isTraced(relation) || hasOneSession(this.config)) return null;
    const { context: connector, naming, tables, apply } = this;
    const inTurn = <T>(action: (client: Client) => Promise<T>) =>
      apply.guard((client) =>
        action(client).catch((error: unknown) => {
          throw this.#told(relation, error);
        }),
      );
    return await beginCopyBeside(
      { connector, naming, tables, inTurn },
      table,
      mode,
      async (action, { isWaiting = () => false, isLast = false } = {}) => {
        const result = await this.#inSession(
          relation,
          false,
          (client) => whileWatched({ ...apply.watched(client), isOurTurn: isWaiting }, () => action(client)),
          isLast ? undefined : stop,
        );
        apply.wentOn();
        return result;
      },
    );
  }

  async take(request: CopyRequest): Promise<void> {
    const { table, part } = request;
    const { relation } = table;
    if (part?.kind === "range") return await this.#takeRange(request, part.range);
    // First copies come by themselves, once `prepare` has seen to the names.
    if (request.mode !== "initial") {
      await this.apply.guard((client) => this.tables.takeName(client, relation));
    }
    const whole = { ...request, mode: this.#modeOf(request) };
    const known = this.#known(relation);
    const outcome = await this.#inSession(relation, true, (client) =>
      watchedCopy(this.apply.watched(client), whole, (counted) =>
        copyIntoTarget(client, this.config, this.naming, this.context, counted, known),
      ),
    );
    this.#made(relation, outcome, part === undefined);
    if (part) this.tables.touched.followed(relation);
  }

  /** All ranges are there. */
  async end(table: TableShape): Promise<void> {
    const { relation } = table;
    const copy = { ...this.#rangeCopy(table), mode: this.#modeOf({ table, mode: "initial" }) };
    const ranges = this.tables.divided.of(relation.id)?.ranges ?? [];
    const known = this.#known(relation);
    const outcome = await this.#inSession(relation, true, (client) =>
      whileWatched(this.apply.watched(client), () => joinRanges(client, this.config, copy, ranges, known)),
    );
    this.tables.divided.ended(relation.id);
    this.#made(relation, outcome);
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

  #made(relation: Relation, { record, shape, owesMore }: CopyOutcome, isWhole = true): void {
    this.tables.ledger.add(record);
    if (isWhole) this.tables.touched.spoil(relation.id, "was copied anew");
    this.tables.owed.brought(relation.id, !owesMore);
    this.tables.shapes.add(shape);
    this.tables.setAside.copied(relation);
    this.#refused.delete(relation.id);
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
      const told = this.#told(relation, error);
      if (isIntoTarget) await this.#setAsideRefused(relation, error);
      throw told;
    }
  }

  /** What went wrong, with the sink's table. The next copy of a table whose rows were refused is made with care. */
  #told(relation: Relation, error: unknown): MillraceError {
    const names = relation.columns.map(({ name }) => name);
    const target = this.naming.target(relation);
    const told =
      mendDenial(error, this.config.connection.user, target) ?? describeRefusedCopy(error, target, names);
    if (refusals.has(told.code)) this.#refused.add(relation.id);
    return told;
  }

  /** Several may be refused at once, and the session that applies is one. */
  async #setAsideRefused(relation: Relation, error: unknown): Promise<void> {
    const endTurn = await this.#refusals.take();
    try {
      await this.#setAsideNow(relation, error);
    } finally {
      endTurn();
    }
  }

  /** A table that has no copy yet, and cannot get one, must not keep the others waiting for theirs: the next run goes on without it. */
  async #setAsideNow(relation: Relation, error: unknown): Promise<void> {
    if (this.tables.ledger.holds(relation) || !this.context.makesCopies) return;
    await this.apply.guard(async (client) => {
      const refusal = await this.#refusalOf(client, relation, error);
      const { column = null } = refusal ?? {};
      const isOurs = column === null || relation.columns.some(({ name }) => name === column);
      if (refusal && isOurs)
        await this.tables.setAside.add(client, relation, refusal, this.apply.resumeLsn());
    });
  }

  async #refusalOf(client: Client, relation: Relation, error: unknown): Promise<MigrationRefused | null> {
    if (error instanceof MigrationRefused) return error;
    if (isValueRefused(error)) return await misfitRefused(client, this.naming.target(relation), relation);
    return refusedNull(error)?.refusal ?? null;
  }
}
