// Copies that a run makes by itself, of tables that the sink lacks: while the stream waits, or beside the stream. A table that cannot be read
// is tried again later, and the others go on.

import type { TupleForm } from "../../change/change-batch.ts";
import { qualifiedName, type TableShape } from "../../change/relation.ts";
import { untilAborted } from "../../concurrency/until-aborted.ts";
import { type MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { StreamDuring } from "../../sink/copy-sink.ts";
import type { IncompleteRows, PreparedTables, Sink } from "../../sink/sink.ts";
import type { Source } from "../../source/source.ts";
import type { SnapshotPoint } from "../../source/table-source.ts";
import { askComputed } from "../ask-computed.ts";
import { LateTables } from "../late-tables.ts";
import type { ProgressMeter } from "../progress-meter.ts";
import type { RunHealth } from "../run-health.ts";
import type { RunWork } from "../run-work.ts";
import type { CopyStates, TableStates } from "../table-states.ts";
import type { RunningTasks } from "../tasks/running-tasks.ts";
import { type RetryPace, UnreadableTables } from "../unreadable-tables.ts";
import { UnprovedTables } from "../verify/unproved-tables.ts";
import { copyIncomplete, makeBlockingCopies } from "./blocking-copies.ts";
import { type CopyEnvironment, copyEnvironment, renewal, waitingStream } from "./copy-environment.ts";
import { type CopyPace, defaultCopyPace } from "./copy-pace.ts";
import { CopyPoints } from "./copy-points.ts";
import { countedStates } from "./counted-states.ts";
import { type BegunCopy, IncrementalCopies, pointMissing } from "./incremental-copies.ts";

export interface MissingCopiesRequest {
  readonly source: Source;
  readonly sink: Sink;
  readonly meter: ProgressMeter;
  readonly states: CopyStates & Pick<TableStates, "prepared" | "comparing" | "proved">;
  readonly reporter: Pick<RunHealth, "phase" | "reportMeanwhile" | "warn">;
  readonly forms: readonly TupleForm[];
  /** With `changes`, a stream brings the changes between two points. */
  readonly work: RunWork;
  readonly skipSnapshots: boolean;
  readonly parallelCopies: number;
  readonly areConnectionsBounded?: boolean;
  readonly copyPace?: CopyPace | undefined;
  readonly retryPace?: RetryPace | undefined;
  /** Finish the current chunks and begin no others. */
  readonly stop: AbortSignal;
}

/** Without a stream, the run fails after this many failures of one table. */
const maxAttempts = 5;

export class MissingCopies implements Disposable {
  readonly unreadable: UnreadableTables;
  /** Tables that are to be compared with the source. */
  readonly unproved: UnprovedTables;
  /** First copies that are made beside the stream. */
  readonly incremental: IncrementalCopies;
  readonly late: LateTables;
  readonly #states: CopyStates;
  #tables: readonly TableShape[] = [];
  /** OIDs of `tables`, by `qualifiedName`. */
  #ids: ReadonlyMap<string, number> = new Map();
  /** OIDs of tables that had incomplete rows when the sink was last prepared. */
  #incomplete: ReadonlySet<number> = new Set();
  /** The sink keeps superseded rows of some tables. */
  #keepsHistory = false;
  /** The tasks, which read at the same time. */
  #tasks: Pick<RunningTasks, "areAny"> | null = null;

  constructor(private readonly request: MissingCopiesRequest) {
    this.unreadable = new UnreadableTables(request.retryPace);
    this.unproved = new UnprovedTables(request);
    this.#states = countedStates(request.meter, request.states);
    this.incremental = new IncrementalCopies(this.#states, request.reporter, this.unreadable);
    this.late = new LateTables(request.reporter);
  }

  async readTables(): Promise<readonly TableShape[]> {
    const { source, sink } = this.request;
    return await source.tables(askComputed(sink));
  }

  async prepare(tables: readonly TableShape[]): Promise<PreparedTables> {
    const { source, sink, states, forms, skipSnapshots } = this.request;
    const unreadable = this.unreadable.among(tables);
    const prepared = await sink.prepare(tables, forms, unreadable);
    const missing = skipSnapshots ? [] : prepared.missing;
    const { withHistory = new Set<number>(), unproved = new Set<number>() } = prepared;
    states.prepared({ tables, excluded: source.excluded(), missing, unreadable, withHistory, unproved });
    this.unproved.prepared(tables, unproved);
    this.#tables = tables;
    this.#ids = new Map(tables.map(({ relation }) => [qualifiedName(relation), relation.id]));
    this.#keepsHistory = withHistory.size > 0;
    this.#incomplete = new Set(prepared.incomplete?.map(({ table }) => table.relation.id));
    return prepared;
  }

  /** What the sink was last prepared for. */
  get tables(): readonly TableShape[] {
    return this.#tables;
  }

  /** The OID of the table that has this name; null: there is none. */
  idOf(table: Pick<TableShape["relation"], "schema" | "name">): number | null {
    return this.#ids.get(qualifiedName(table)) ?? null;
  }

  wasIncomplete({ relation }: TableShape): boolean {
    return this.#incomplete.has(relation.id);
  }

  /** Tasks take connections as well. If those are bounded, tables are copied one by one as of one point while tasks run. */
  shareWith(tasks: Pick<RunningTasks, "areAny">): void {
    this.#tasks = tasks;
  }

  /** Beside a stream: checks unreadable tables from time to time, and calls `ready` when one can be read. */
  retryDuringStream(ready: () => void): void {
    let isAsking = false;
    const ask = async () => {
      if (isAsking) return;
      isAsking = true;
      if (await this.#checkDue()) ready();
      isAsking = false;
      // Others may have come due meanwhile.
      if (this.unreadable.due().length > 0) await ask();
    };
    this.unreadable.onDue(() => void ask());
  }

  /**
   * Call it between two batches: copies the missing tables, or begins their copies if the stream can go on meanwhile. `ofSlot`: the point at
   * which a new slot begins. The sink is told to skip changes of unreadable tables.
   */
  async make(
    tables: readonly TableShape[],
    prepared: PreparedTables,
    stream: StreamDuring,
    ofSlot: SnapshotPoint | null = null,
  ): Promise<void> {
    const { skipSnapshots } = this.request;
    const { missing, isOrdered = false } = prepared;
    const isReadable = ({ table }: IncompleteRows) => this.unreadable.waitingFor(table) === null;
    const incomplete = prepared.incomplete?.filter(isReadable) ?? [];
    if (skipSnapshots) this.late.warnOf(missing, ofSlot !== null);
    await using copies = new AsyncDisposableStack();
    const begun = skipSnapshots ? [] : await this.#begin(missing, stream, copies);
    if (begun.length === 0 && incomplete.length === 0) return await this.#tellFailed(tables, prepared);
    const { source, sink, stop, work, reporter } = this.request;
    await sink.flush();
    const areScarce = this.request.areConnectionsBounded === true && this.#tasks?.areAny === true;
    const isOneByOne = isOrdered || areScarce;
    const environment = this.#environment(isOneByOne ? 1 : this.request.parallelCopies);
    {
      // Without a stream, all copies are as of one point: nothing would bring the changes between two points.
      const isOnePoint = isOneByOne || work !== "changes";
      const first = ofSlot ?? (await source.snapshotPoint(stop));
      await using points = new CopyPoints(first, isOnePoint ? null : renewal(environment, stop));
      const waiting = { environment, reporter, unreadable: this.unreadable, stop, isOrdered };
      for (const rows of incomplete) await copyIncomplete(waiting, rows, points);
      await makeBlockingCopies(waiting, begun, points);
    }
    await this.#tellFailed(tables, prepared);
  }

  /** The sink must know which failed before the stream brings their changes. */
  async #tellFailed(tables: readonly TableShape[], prepared: PreparedTables): Promise<void> {
    const { missing, incomplete = [] } = prepared;
    const tried = [...missing, ...incomplete.map(({ table }) => table)];
    if (tried.some((table) => this.unreadable.has(table))) await this.prepare(tables);
  }

  /** As `make`, before or amid a stream. If no point can be had now, the tables are tried again later, so that the stream does not wait. */
  async makeForStream(tables: readonly TableShape[], prepared: PreparedTables): Promise<void> {
    try {
      await this.make(tables, prepared, "runs");
    } catch (error) {
      const failure = pointMissing(error);
      // Incomplete rows must be copied before the stream goes on.
      if (failure === null || prepared.incomplete?.length) throw error;
      const lacking = prepared.missing.filter((table) => !this.incremental.isUnderWay(table));
      for (const table of lacking) this.unreadable.failed(table, failure);
      await this.prepare(tables);
    }
  }

  /**
   * Without a stream: returns when each table is copied, or when stopped. `meanwhile` is called before each attempt; `onWake` gets a function
   * that ends the waiting for one. Throws if a table has failed too often, or if a table that the catalog names does not exist.
   */
  async finish(meanwhile: () => Promise<void>, onWake: (wake: (() => void) | null) => void): Promise<void> {
    const { source, stop } = this.request;
    await meanwhile();
    while (!this.unreadable.isEmpty && !stop.aborted) {
      if (this.unreadable.attempts >= maxAttempts) throw this.unreadable.asError();
      await this.#untilDue(onWake);
      await meanwhile();
      if (stop.aborted) return;
      if (!(await this.#checkDue())) continue;
      const tables = await this.readTables();
      await this.make(tables, await this.prepare(tables), "waits");
    }
    // No batch comes that would do it.
    if (this.#keepsHistory && !stop.aborted) await this.prepare(await this.readTables());
    // A task has reported its own table's absence.
    const absent = this.request.work === "copies" && !stop.aborted ? source.absent() : null;
    if (absent !== null) throw absent;
  }

  [Symbol.dispose](): void {
    this.unreadable[Symbol.dispose]();
  }

  /** Begins the copies. Returns those that the stream waits for, which `copies` disposes of. The others go on beside the stream. */
  async #begin(
    missing: readonly TableShape[],
    stream: StreamDuring,
    copies: AsyncDisposableStack,
  ): Promise<readonly BegunCopy[]> {
    const { sink } = this.request;
    const begun: BegunCopy[] = [];
    await using untilAllHaveBegun = new AsyncDisposableStack();
    for (const table of missing) {
      const during = this.incremental.takeFailed(table) ? "waits" : stream;
      const copy = await sink.copies
        .begin(table, "initial", during, this.incremental.abort.signal)
        .catch((error: unknown) => this.#laterIfLocked(table, error));
      if (copy === null) continue;
      (copy.stream === "runs" ? untilAllHaveBegun : copies).use(copy);
      begun.push({ table, copy });
    }
    untilAllHaveBegun.move();
    this.incremental.begin(begun.filter(({ copy }) => copy.stream === "runs"));
    return begun.filter(({ copy }) => copy.stream === "waits");
  }

  /** Somebody has locked the table at the sink: the others go on. */
  #laterIfLocked(table: TableShape, error: unknown): null {
    const failure = toMillraceError(error);
    if (failure.code !== "table_locked") throw error;
    this.unreadable.failed(table, failure);
    return null;
  }

  #environment(parallel: number): CopyEnvironment {
    const { source, sink, copyPace: pace = defaultCopyPace } = this.request;
    return copyEnvironment({ source, sink, states: this.#states, pace }, parallel, waitingStream);
  }

  /** Whether a table that is due may be readable by now. Asked first, as a point for nothing would be expensive. */
  async #checkDue(): Promise<boolean> {
    let isAnyReady = false;
    for (const { table, error } of this.unreadable.due()) {
      // If the source does not answer, the run notices that elsewhere.
      const denial: MillraceError | null = await this.request.source.readDenial(table).catch(() => error);
      if (denial) this.unreadable.failed(table, denial);
      else this.unreadable.canBeRead(table);
      isAnyReady ||= denial === null;
    }
    return isAnyReady;
  }

  async #untilDue(onWake: (wake: (() => void) | null) => void): Promise<void> {
    const { stop } = this.request;
    const due = Promise.withResolvers<void>();
    this.unreadable.onDue(due.resolve);
    onWake(due.resolve);
    await untilAborted(due.promise, stop).catch(() => {});
    onWake(null);
    this.unreadable.onDue(null);
  }
}
