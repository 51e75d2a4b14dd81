// The copies that the sink lacks, over a run: makes those that can be made, and tries the others again by itself, while what can
// go on goes on.

import type { TupleForm } from "../../change/change-batch.ts";
import { qualifiedName, type TableShape } from "../../change/relation.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { type MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { PreparedTables, Sink } from "../../sink/sink.ts";
import type { SnapshotPoint, Source } from "../../source/source.ts";
import type { ProgressMeter } from "../progress-meter.ts";
import type { RunHealth } from "../run-health.ts";
import type { RunWork } from "../run-work.ts";
import type { RunningTasks } from "../running-tasks.ts";
import { type CopyPace, defaultCopyPace } from "./copy-pace.ts";
import { CopyPoints } from "./copy-points.ts";
import { FirstCopies } from "./first-copies.ts";
import { copyOwedRows, copyTables } from "./initial-copy.ts";
import { type RetryPace, UnreadableTables } from "./unreadable-tables.ts";

export interface MissingCopiesRequest {
  readonly source: Source;
  readonly sink: Sink;
  readonly meter: ProgressMeter;
  readonly reporter: Pick<RunHealth, "phase" | "passing" | "warn">;
  readonly forms: readonly TupleForm[];
  /** For `changes`, what lies between two points is brought by a stream. */
  readonly work: RunWork;
  readonly skipSnapshots: boolean;
  readonly parallelCopies: number;
  readonly areConnectionsBounded?: boolean;
  readonly copyPace?: CopyPace | undefined;
  readonly retryPace?: RetryPace | undefined;
  /** Finish the copies in hand, and begin no others. */
  readonly stop: AbortSignal;
}

/** Others have what a point takes: for as long as that lasts. */
const pointMissing: ReadonlySet<ErrorCode> = new Set([
  "slot_creation_blocked",
  "slots_exhausted",
  "walsenders_exhausted",
]);

function isPointMissing({ code }: MillraceError): boolean {
  return pointMissing.has(code);
}

/** A copy without a stream ends with so many failures of a table. */
const maxAttempts = 5;

/** A warning names so many tables. */
const mostTold = 5;

export class MissingCopies implements Disposable {
  readonly unreadable: UnreadableTables;
  /** OIDs of tables that were not published from their beginning, and that have no copy. */
  #late: ReadonlySet<number> = new Set();
  /** They read beside the stream. */
  #tasks: Pick<RunningTasks, "areAny"> | null = null;
  /** Those that are made beside the stream. */
  readonly first: FirstCopies;

  constructor(private readonly request: MissingCopiesRequest) {
    this.unreadable = new UnreadableTables(request.retryPace);
    this.first = new FirstCopies(request, this.unreadable);
  }

  /** It is warned of them, until they are copied. */
  get areSomeLate(): boolean {
    return this.#late.size > 0;
  }

  async prepare(tables: readonly TableShape[]): Promise<PreparedTables> {
    const { sink, forms } = this.request;
    return await sink.prepare(tables, forms, this.unreadable.among(tables));
  }

  /** Beside a stream, which need not wait for it: `ready` is called when what could not be read can be tried again. */
  retryBeside(ready: () => void): void {
    let isAsking = false;
    const ask = async () => {
      if (isAsking) return;
      isAsking = true;
      if (await this.#ask()) ready();
      isAsking = false;
      // What came due while the others were asked about.
      if (this.unreadable.due().length > 0) await ask();
    };
    this.unreadable.onDue(() => void ask());
  }

  /** Copies what is missing of `tables`, as of the slot's point or a later one. What cannot be read is left out of the stream. */
  async make(
    tables: readonly TableShape[],
    { missing: lacking, isOrdered = false, owed = [] }: PreparedTables,
    ofSlot: SnapshotPoint | null,
  ): Promise<void> {
    const { source, sink, reporter, meter, forms, stop, copyPace: pace = defaultCopyPace } = this.request;
    const { unreadable } = this;
    const { skipSnapshots } = this.request;
    if (skipSnapshots) this.#tellOfLate(lacking, ofSlot !== null);
    // Rows that are owed are those of a task.
    const missing = skipSnapshots ? [] : lacking;
    if (missing.length === 0 && owed.length === 0) return;
    await sink.flush();
    {
      const isOneByOne = isOrdered || this.#isScarce;
      await using points = this.#points(ofSlot ?? (await source.snapshotPoint(stop)), isOneByOne);
      const parallel = isOneByOne ? 1 : this.request.parallelCopies;
      const copy = { source, sink, reporter, meter, pace, parallel, isOrdered, unreadable, stop };
      for (const rows of owed) await copyOwedRows(copy, rows, points);
      if (missing.length > 0) await copyTables(copy, missing, points);
    }
    // Before the stream brings their changes.
    if (!unreadable.isEmpty) await sink.prepare(tables, forms, unreadable.among(tables));
  }

  /** Without copies: what a table that comes later had before it was published is in no change. At the slot's beginning nothing is awaited. */
  #tellOfLate(missing: readonly TableShape[], isBeginning: boolean): void {
    const late = missing.filter(({ relation, coverage }) => {
      return this.#late.has(relation.id) || (!isBeginning && coverage?.isUnpublished === true);
    });
    if (late.length === 0 && this.#late.size === 0) return;
    this.#late = new Set(late.map(({ relation }) => relation.id));
    const names = late.map(({ relation }) => qualifiedName(relation));
    const more = names.length > mostTold ? ` and ${names.length - mostTold} others` : "";
    const reason =
      `The sink may lack rows of ${names.slice(0, mostTold).join(", ")}${more}: those from before the table's changes were published. ` +
      "Nothing is copied by itself (skip_snapshots): create a Snapshot task for it.";
    this.request.reporter.warn("late tables", names.length === 0 ? null : reason);
  }

  /** These take connections as well: where those are bounded, one table after the other is copied meanwhile, as of one point. */
  shareWith(tasks: Pick<RunningTasks, "areAny">): void {
    this.#tasks = tasks;
  }

  get #isScarce(): boolean {
    return this.request.areConnectionsBounded === true && this.#tasks?.areAny === true;
  }

  /** Begins beside a stream what can be made there. Returns what is to be copied now. */
  async beginBeside(prepared: PreparedTables): Promise<PreparedTables> {
    const { missing, isOrdered } = prepared;
    if (this.request.skipSnapshots) return prepared;
    return { ...prepared, missing: await this.first.begin(missing, isOrdered) };
  }

  /** Between two batches of a stream: it does not stand still for long where no point is to be had now. */
  async makeBeside(tables: readonly TableShape[], prepared: PreparedTables): Promise<void> {
    const { sink, forms } = this.request;
    try {
      await this.make(tables, await this.beginBeside(prepared), null);
    } catch (error) {
      const failure = toMillraceError(error);
      // Rows that are owed have to come before the stream goes on.
      if (!isPointMissing(failure) || prepared.owed?.length) throw error;
      for (const table of prepared.missing) this.unreadable.failed(table, failure);
      await sink.prepare(tables, forms, this.unreadable.among(tables));
    }
  }

  /** Where no stream brings what lies between, all copies are as of one point. */
  #points(first: SnapshotPoint, isOneByOne: boolean): CopyPoints {
    const { source, stop, work, copyPace = defaultCopyPace } = this.request;
    const next = work === "changes" && !isOneByOne ? () => source.snapshotPoint(stop) : null;
    return new CopyPoints(first, { next, heldMs: copyPace.pointHeldMs });
  }

  /**
   * Without a stream: returns when every table is copied, or it was stopped. `meanwhile` is called before each attempt, and when
   * `wakes` is. Throws when a table has failed too often, or one that was named is not there.
   */
  async finish(meanwhile: () => Promise<void>, onWake: (wake: (() => void) | null) => void): Promise<void> {
    const { source, stop } = this.request;
    await meanwhile();
    while (!this.unreadable.isEmpty && !stop.aborted) {
      if (this.unreadable.attempts >= maxAttempts) throw this.unreadable.asError();
      await this.#untilDue(onWake);
      await meanwhile();
      if (stop.aborted) return;
      if (!(await this.#ask())) continue;
      const tables = await source.tables();
      await this.make(tables, await this.prepare(tables), null);
    }
    // A task is of one table: it has told by itself.
    const absent = this.request.work === "copies" && !stop.aborted ? source.absent() : null;
    if (absent !== null) throw absent;
  }

  /** Whether one that is due is not known to be unreadable still. To take a point for nothing would be dear. */
  async #ask(): Promise<boolean> {
    let isAnyReady = false;
    for (const { table, error } of this.unreadable.due()) {
      // Where the source cannot be asked, the run sees that by itself.
      const denial = await this.request.source.readDenial(table).catch(() => error);
      if (denial) this.unreadable.failed(table, denial);
      else this.unreadable.canBeRead(table);
      isAnyReady ||= denial === null;
    }
    return isAnyReady;
  }

  async #untilDue(onWake: (wake: (() => void) | null) => void): Promise<void> {
    const { stop } = this.request;
    const due = Promise.withResolvers<void>();
    const wake = () => due.resolve();
    stop.addEventListener("abort", wake, { once: true });
    this.unreadable.onDue(wake);
    onWake(wake);
    if (!stop.aborted) await due.promise;
    onWake(null);
    this.unreadable.onDue(null);
    stop.removeEventListener("abort", wake);
  }

  [Symbol.dispose](): void {
    this.unreadable[Symbol.dispose]();
  }
}
