// How each copy of a table can be made beside the stream, and begins it: as a task's, or as a first one. Null where it cannot.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import { isIdentified, type Relation, type TableShape } from "../../../change/relation.ts";
import { hasOneSession } from "../../../connection/has-one-session.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { BegunCopy, CopyBeside, CopyRequest, SinkContext } from "../../sink.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import type { TargetTable } from "../schema/target-table.ts";
import type { SinkTables } from "../sink-tables.ts";
import {
  type BesideRequest,
  beginCopyBeside,
  beginNoted,
  type CopiesBesideOptions,
  isSettled,
  isWhollyReplaced,
} from "./copies-beside.ts";
import type { FirstOutcome } from "./copy-beside.ts";
import type { CopyRefusals } from "./copy-refusals.ts";
import { FirstCopyBeside } from "./first-copy-beside.ts";
import { NotedFirstCopy } from "./noted-first-copy.ts";
import { copyRange, type RangeCopy } from "./range-copy.ts";
import type { ApplySession } from "./sink-copies.ts";
import { type CopyOutcome, hasRows, type KnownTable, recordOutcome } from "./table-copy.ts";
import { readTies, type TableTies } from "./table-ties.ts";
import { besideSpoiled } from "./touched-keys.ts";

/** What copies are made of, whoever makes them. */
export interface CopySteps {
  /** Runs `action` in a session of a copy, which `stop` ends. `isWaiting`: for the source. */
  inSession<T>(
    relation: Relation,
    action: (client: Client) => Promise<T>,
    stop: AbortSignal | undefined,
    isWaiting?: () => boolean,
  ): Promise<T>;
  /** As `inSession`, of a copy whose rows are counted. */
  passing<T extends { readonly rows: number }>(
    request: CopyRequest,
    copy: (client: Client, counted: CopyRequest) => Promise<T>,
    stop: AbortSignal,
  ): Promise<T>;
  divide(table: TableShape): Promise<BegunCopy | null>;
  whole(client: Client, request: CopyRequest): Promise<CopyOutcome>;
  rangeCopy(table: TableShape): RangeCopy;
  join(client: Client, table: TableShape): Promise<CopyOutcome>;
  known(relation: Relation): KnownTable;
  /** Of a first copy. */
  modeOf(table: TableShape): CopyRequest["mode"];
  made(relation: Relation, outcome: FirstOutcome): void;
  applyKept(relation: Relation): Promise<boolean>;
}

export class CopiesBegunBeside {
  readonly #hasOneSession: boolean;
  /** By OID: of tables whose first copy is on its way, the latest point that rows were copied by their keys as of. */
  readonly #partsAsOf = new Map<number, Lsn>();

  constructor(
    { connection }: PostgresSinkConfig,
    private readonly naming: TargetNaming,
    private readonly context: SinkContext,
    private readonly tables: SinkTables,
    private readonly apply: ApplySession,
    private readonly refusals: CopyRefusals,
    private readonly steps: CopySteps,
  ) {
    this.#hasOneSession = hasOneSession(connection);
  }

  /** Between two batches. */
  async begin(table: TableShape, mode: CopyRequest["mode"], stop: AbortSignal): Promise<CopyBeside | null> {
    const { relation } = table;
    if (mode !== "initial" && !isWhollyReplaced(relation)) {
      // A row that is refused is told where the table is copied whole.
      if (this.refusals.isTraced(relation)) return null;
      return await beginCopyBeside(this.#options(relation), this.#request(table, mode, stop));
    }
    const ties = await this.apply.guard((client) => readTies(client, this.naming.target(relation)));
    const isTied = ties.areOthers || this.#hasOneSession || this.naming.isShared(relation);
    if (!isTied) return await this.#beginKept(table, mode, stop);
    return mode === "initial" ? await this.#beginNoted(table, ties, stop) : null;
  }

  /** Rows of a table whose first copy is on its way were copied by their keys. */
  tookPart({ id }: Relation, point: Lsn): void {
    this.#partsAsOf.set(id, point);
  }

  #options(relation: Relation): CopiesBesideOptions {
    const { context: connector, naming, tables, apply, refusals } = this;
    const inTurn = <T>(action: (client: Client) => Promise<T>) =>
      apply.guard((client) =>
        action(client).catch((error: unknown) => {
          throw refusals.told(relation, error);
        }),
      );
    return { connector, naming, tables, inTurn };
  }

  #request(table: TableShape, mode: BesideRequest["mode"], stop: AbortSignal): BesideRequest {
    return {
      ...{ table, mode, takesInTurn: this.#hasOneSession, stop },
      inSession: (action, { isWaiting, isLast = false } = {}) =>
        this.steps.inSession(table.relation, action, isLast ? undefined : stop, isWaiting),
    };
  }

  /** See noted-first-copy.ts. */
  async #beginNoted(table: TableShape, ties: TableTies, stop: AbortSignal): Promise<CopyBeside | null> {
    const { relation } = table;
    const isPossible = isIdentified(relation) && !isWhollyReplaced(relation) && this.context.makesCopies;
    if (!isPossible || ties.isOwn || this.refusals.isTraced(relation)) return null;
    const { shapes, setAside, ledger } = this.tables;
    // The stream has yet to bring rows of other shapes, or what it brings is left out.
    const isBehind = shapes.of(relation) !== null && !this.tables.isReadyFor(relation);
    if (isBehind || setAside.has(relation.id)) return null;
    // The stream may bring rows that refer to rows of this table, of tables that are copied: they cannot wait for it.
    if (ledger.amongTargets(ties.referring).length > 0) return null;
    const { target } = ties;
    const isBegun = await this.apply.guard((client) => this.#beginApplying(client, table, target));
    if (!isBegun) return null;
    return new NotedFirstCopy(this.#hasOneSession, {
      begin: () => this.#noteFirst(table, stop),
      end: () => this.tables.held.letGo(relation.id),
    });
  }

  /**
   * From here on changes of the table are applied: what is there of it stays right. They are kept while tables that it refers to are
   * yet to be copied; the copy comes behind what is kept, which tells of nothing then but of rows that it would have to remove.
   */
  async #beginApplying(client: Client, table: TableShape, target: TargetTable | null): Promise<boolean> {
    const { held, ledger, registry } = this.tables;
    const { relation } = table;
    const isReplaced = this.#modeOf(table) === "replace" && !this.naming.isShared(relation);
    const isNew = isReplaced || target === null || !(await hasRows(client, target));
    const waits = registry.sourcesOf(target?.refersTo ?? []).some((id) => ledger.pointOf(id) === null);
    if (waits && isNew) await held.begin(client, table);
    if (waits) return isNew;
    if (!(await this.#makeReady(client, relation))) return false;
    if (isNew) await held.end(client, relation.id);
    while (held.has(relation.id) && (await this.steps.applyKept(relation))) {}
    held.beginApplied(table);
    return true;
  }

  /** Where it cannot be, a copy between two batches tells why. */
  async #makeReady(client: Client, relation: Relation): Promise<boolean> {
    const { tables, apply } = this;
    try {
      await tables.makeReady(client, relation, apply.form(), apply.resumeLsn());
      return true;
    } catch (error) {
      if (this.context.signal.aborted) throw error;
      return false;
    }
  }

  #modeOf(table: TableShape): BesideRequest["mode"] {
    return this.steps.modeOf(table) === "replace" ? "replace" : "merge";
  }

  /** What the stream touches from here on is noted. */
  async #noteFirst(table: TableShape, stop: AbortSignal): Promise<CopyBeside> {
    const { tables, apply, context, steps } = this;
    const { relation } = table;
    // What it has applied is not noted.
    apply.giveUpInProgress();
    tables.held.requireSound(relation);
    const waited = tables.held.has(relation.id);
    const isReady = !waited || (await apply.guard((client) => this.#makeReady(client, relation)));
    if (isReady && !tables.isReadyFor(relation)) throw besideSpoiled(relation, "was altered");
    this.#partsAsOf.delete(relation.id);
    const copy =
      isReady &&
      (await beginNoted(this.#options(relation), this.#request(table, this.#modeOf(table), stop), {
        record: (client, target, point) => {
          const made = this.#madeAsOf(relation, point);
          return recordOutcome(client, context, table, made, steps.known(relation), target, null);
        },
        made: (outcome) => {
          steps.made(relation, outcome);
          tables.held.letGo(relation.id);
        },
      }));
    if (!copy) throw besideSpoiled(relation, "cannot be written row by row");
    if (waited) await apply.guard((client) => tables.held.release(client, relation));
    return copy;
  }

  /** Rows that were copied by their keys are as of later than the stream: it brings what lies between once more. */
  #madeAsOf({ id }: Relation, point: Lsn) {
    const parts = this.#partsAsOf.get(id);
    if (parts === undefined) return { point, isMerged: false, first: null };
    return { point: parts > point ? parts : point, isMerged: true, first: zeroLsn };
  }

  /** A first copy, or one that takes the place of all rows, which has the table to itself. */
  async #beginKept(
    table: TableShape,
    mode: CopyRequest["mode"],
    stop: AbortSignal,
  ): Promise<CopyBeside | null> {
    const { apply, tables, steps } = this;
    const { relation } = table;
    const isFirst = mode === "initial";
    const isTraced = this.refusals.isTraced(relation);
    // What is kept already is of no copy that is known of, and to be applied first.
    const isPossible = isFirst
      ? this.context.makesCopies
      : isSettled(tables, table) && !tables.held.has(relation.id) && !isTraced;
    if (!isPossible) return null;
    await apply.guard((client) => tables.held.begin(client, table));
    const form: TupleForm = isTraced ? "text" : tables.registry.copyForm(table);
    return new FirstCopyBeside({
      form,
      divide: () => steps.divide(table),
      whole: (request) => steps.passing(request, steps.whole, stop),
      range: async (request, range) => {
        const copy = steps.rangeCopy(table);
        const take = (client: Client, counted: CopyRequest) => copyRange(client, copy, counted, range);
        tables.divided.added(relation.id, await steps.passing(request, take, stop));
      },
      join: () => steps.inSession(relation, (client) => steps.join(client, table), stop),
      made: (outcome) => {
        tables.held.requireSound(relation);
        tables.divided.ended(relation.id);
        steps.made(relation, outcome);
      },
      applyKept: () => steps.applyKept(relation),
      giveUp: async () => {
        tables.held.letGo(relation.id);
        if (isFirst) await apply.guard((client) => tables.divided.reload(client, relation.id));
        else this.context.events.mended();
      },
    });
  }
}
