// One attempt of a run: begins, or resumes at the sink's checkpoint, copies missing tables, then carries changes until it is stopped. It knows
// the kind of neither source nor sink.

import type { TupleForm } from "../change/change-batch.ts";
import type { Lsn } from "../change/lsn.ts";
import { qualifiedName, type TableShape } from "../change/relation.ts";
import { isOfSink } from "../errors/error-codes.ts";
import { isGivenUp } from "../errors/given-up.ts";
import { MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import { releaseBytes } from "../memory/release-bytes.ts";
import { StreamGarbage } from "../memory/stream-garbage.ts";
import type { PreparedTables, Sink } from "../sink/sink.ts";
import type { SinkEvents } from "../sink/sink-events.ts";
import type { ChangeStream } from "../source/change-stream.ts";
import type { Source } from "../source/source.ts";
import { type Begun, beginRun, type Found, readBothSides } from "./beginning.ts";
import { copyEnvironment, waitingStream } from "./copy/copy-environment.ts";
import { defaultCopyPace } from "./copy/copy-pace.ts";
import { MissingCopies } from "./copy/missing-copies.ts";
import { CountedChanges } from "./counted-changes.ts";
import { asPublished, isUnpublished, PublishedWhenUnlocked, withoutUnpublished } from "./locked-tables.ts";
import { LogWatch } from "./log-watch.ts";
import type { PipelineRequest } from "./pipeline-request.ts";
import { ProgressMeter } from "./progress-meter.ts";
import { RunHealth } from "./run-health.ts";
import { StreamEvents } from "./stream-events.ts";
import { StreamPosition, writeEnd } from "./stream-position.ts";
import { TableStates } from "./table-states.ts";
import { workWithStream } from "./tasks/with-stream.ts";
import { runTaskWithoutStream } from "./tasks/without-stream.ts";

/** Returns when stopped or when all its work is done. Throws what else ended it. */
export async function runPipeline(request: PipelineRequest): Promise<void> {
  await attempt({ counted: new CountedChanges(), ...request }, true);
}

async function attempt(request: PipelineRequest, takesInProgress: boolean): Promise<void> {
  try {
    await new PipelineRun(request, takesInProgress).toTheEnd();
  } catch (error) {
    const { stop } = request;
    const comesAgain = takesInProgress && isGivenUp(error);
    // It was stopped while it waited for a point, or gave up a transaction that comes again. Nothing is half done.
    if (stop.aborted && (comesAgain || error === stop.reason)) return;
    if (!comesAgain) throw error;
    // There was a stream: the connector has begun, or has resumed.
    await attempt({ ...request, initialized: true, resumes: false }, false);
  }
}

/** How long the last check of the retained WAL may take when the sink has failed. */
const logCheckMs = 3_000;
/** What a sink makes of a batch, and nothing gives back: its share of the batch's bytes. */
const garbageOfBatch = 0.25;

class PipelineRun {
  readonly #garbage = new StreamGarbage();
  readonly #health: RunHealth;
  readonly #counted: CountedChanges;
  #stream: ChangeStream | null = null;
  #events: StreamEvents | null = null;
  #logWatch: LogWatch | null = null;
  /** The sink has asked for another `prepare`, maybe before there was a stream. */
  #isRefreshDue = false;
  /** The LSN that the sink waits for, maybe since before there was a stream. */
  #awaited: Lsn | null = null;
  readonly #publishing = new PublishedWhenUnlocked(() => this.#refreshTables());
  /** Why the table cannot be copied now; null: it can. */
  #copyBlocker: (table: TableShape) => MillraceError | null = () => null;
  /** The stream waits for an action that may take long. */
  #isPaused = false;

  constructor(
    private readonly request: PipelineRequest,
    private readonly takesInProgress: boolean,
  ) {
    this.#health = new RunHealth(request.reporter);
    this.#counted = request.counted ?? new CountedChanges();
  }

  async toTheEnd(): Promise<void> {
    const { request } = this;
    const { reporter } = request;
    using meter = new ProgressMeter(
      (progress) => reporter.progress(progress),
      () => this.#stream?.lag().bytes ?? this.#logWatch?.bytes ?? null,
      () => this.#logWatch?.slot ?? null,
      this.#counted,
    );
    using states = new TableStates((report) => reporter.tables(report), this.#counted);
    await using source = request.makeSource({
      warning: (topic, reason, commands) => this.#health.warn(`source ${topic}`, reason, commands),
    });
    using logWatch = new LogWatch(
      source,
      () => this.#mayKeepMuch(),
      (reason) => this.#health.warn("log", reason),
      request.logWatchMs,
    );
    this.#logWatch = logWatch;
    using _publishing = this.#publishing;
    await using sink = request.makeSink(this.#sinkEvents(meter, states));
    this.#health.step("connect to the sink, and read the source's tables");
    try {
      await this.#work(source, sink, meter, states);
    } catch (error) {
      this.#stream = null;
      // If each attempt fails as fast, the retained WAL is still reported.
      if (!request.abort.aborted && isOfSink(toMillraceError(error).code))
        await Promise.race([logWatch.check(), Bun.sleep(logCheckMs)]);
      throw error;
    }
  }

  async #work(source: Source, sink: Sink, meter: ProgressMeter, states: TableStates): Promise<void> {
    const { request } = this;
    const found = await readBothSides(request, source, sink);
    // Whether the sink has copies is known later; for a connector that begins it does not matter.
    if (!request.initialized) states.allWait(found.tables, source.excluded());
    using copies = new MissingCopies({ ...request, source, sink, meter, states, reporter: this.#health });
    const begun = await this.#beginAndCopy(source, sink, copies, found);
    if (request.stop.aborted) return;
    if (request.work === "changes") return await this.#carry(source, sink, copies, meter, states, begun);
    await copies.finish(
      () => this.#runTasks(source, sink, states, copies),
      (wake) => request.tasks.onArrival(wake),
    );
  }

  /** Whether much WAL may be retained: while nothing is acknowledged, the stream does not know how far the server is. */
  #mayKeepMuch(): boolean {
    return this.#stream === null || this.#isPaused || this.#stream.lag().isInTheDark;
  }

  /** The snapshot of a new slot stays open no longer than the tables are copied. */
  async #beginAndCopy(source: Source, sink: Sink, copies: MissingCopies, found: Found): Promise<Begun> {
    await using resources = new AsyncDisposableStack();
    const step = (name: string) => this.#health.step(name);
    const { checkpoint, point } = await beginRun(this.request, source, sink, found, step);
    if (point) resources.use(point);
    await this.request.reporter.initialized();
    const prepared = await copies.prepare(found.tables);
    const locked = point === null ? await this.#publish(source) : null;
    const tables = asPublished(found.tables, locked);
    const ready = this.#ready(prepared, locked);
    // While no table has a copy the stream would bring nothing of use: blocking copies are faster. Once one has, its changes must not wait.
    const isBeginning = ready.missing.length === tables.length && ready.hasChanges !== true;
    const doesStreamRun = this.request.initialized && !isBeginning && this.request.work === "changes";
    if (doesStreamRun) await copies.makeForStream(tables, ready);
    else if (this.request.work !== "tasks") await copies.make(tables, ready, "waits", point);
    const takesInProgress = this.takesInProgress && prepared.takesInProgress === true;
    const { form, maxTables } = prepared;
    return { checkpoint, form, takesInProgress, maxTables, behind: this.#stillBehind(prepared) };
  }

  async #carry(
    source: Source,
    sink: Sink,
    copies: MissingCopies,
    meter: ProgressMeter,
    states: TableStates,
    { checkpoint, form, takesInProgress, maxTables, behind }: Begun,
  ): Promise<void> {
    const { stop, tasks } = this.request;
    await using stream = await source.stream(checkpoint, form, { takesInProgress, maxTables });
    this.#stream = stream;
    // The sink ends while the stream can still acknowledge what becomes durable by that.
    await using ending = new AsyncDisposableStack();
    if (this.#awaited !== null) stream.reach(this.#awaited);
    this.#health.enter({ name: "realtime" });
    if (behind.length > 0) await source.announceShapes(behind);
    using events = new StreamEvents(stream, source, tasks, stop);
    this.#events = events;
    copies.retryDuringStream(() => events.refreshTables());
    if (this.#isRefreshDue) events.refreshTables();
    meter.resumesAt(checkpoint);
    const position = new StreamPosition(checkpoint.resumeLsn, stream);
    const listTables = () => this.#adoptTables(source, copies, form);
    const copyBlocker = (table: TableShape) => this.#copyBlocker(table);
    const ended = () => (copies.late.areAny ? events.refreshTables() : this.#health.goOn());
    const whileWaiting = <T>(table: TableShape, copy: () => Promise<T>) => this.#whileWaiting(table, copy);
    const context = { listTables, copies, copyBlocker, first: copies.incremental, whileWaiting };
    await using running = workWithStream(
      this.request,
      { source, sink, states, position, events, lagBytes: () => stream.lag().bytes },
      context,
      ended,
    );
    copies.shareWith(running);
    let isWhole = true;
    while (!stop.aborted) {
      const event = await events.next(isWhole, running.mayRun);
      position.isPaused = true;
      this.#isPaused = event.type === "action" || event.type === "tables";
      switch (event.type) {
        case "batch":
          await meter.write(event.batch, (batch) => sink.write(batch), states.count(event.batch));
          this.#garbage.released(event.batch.arena.byteLength * garbageOfBatch);
          releaseBytes(event.batch.arena);
          position.wrote(event.batch);
          if (!event.batch.inProgress) isWhole = !event.batch.endsInTransaction;
          break;
        case "task":
          running.start(event.task);
          break;
        case "action":
          await event.run();
          break;
        case "tables":
          await listTables();
          this.#health.goOn();
          break;
        case "stop":
          break;
        default:
          event satisfies never;
      }
      this.#isPaused = false;
      position.isPaused = false;
    }
    if (isWhole) await writeEnd(stream, position, sink);
    ending.defer(() => this.#endSink(sink));
  }

  async #endSink(sink: Sink): Promise<void> {
    await sink[Symbol.asyncDispose]();
    this.#stream = null;
  }

  /** The stream waits while a table is copied, and the status says so. */
  async #whileWaiting<T>(table: TableShape, copy: () => Promise<T>): Promise<T> {
    const phase = { name: "snapshot", table: qualifiedName(table.relation) } as const;
    try {
      return await this.#health.within(async () => {
        this.#health.phase(phase, { kind: "start" });
        return await copy();
      });
    } finally {
      this.#health.goOn();
    }
  }

  /** Without a stream: runs waiting tasks one by one. */
  async #runTasks(source: Source, sink: Sink, states: TableStates, copies: MissingCopies): Promise<void> {
    const { tasks, stop } = this.request;
    const listTables = async () => {
      const tables = await copies.readTables();
      await copies.prepare(tables);
      return tables;
    };
    const { copyPace: pace = defaultCopyPace } = this.request;
    const once = copyEnvironment({ source, sink, states, pace }, 1, waitingStream);
    for (let task = tasks.take(); task && !stop.aborted; task = tasks.take()) {
      await runTaskWithoutStream(once, task, listTables, stop);
      this.#health.goOn();
    }
  }

  /** Call it between two batches: prepares the sink for new and changed tables. Returns all tables as they are now. */
  async #adoptTables(source: Source, copies: MissingCopies, form: TupleForm): Promise<readonly TableShape[]> {
    const read = await copies.readTables();
    const prepared = await copies.prepare(read);
    if (prepared.form !== form && form === "binary") {
      throw new MillraceError("stream_form_changed", "A table has come that cannot travel as bytes.");
    }
    const locked = await this.#publish(source);
    // A task's copy of a table that nobody publishes would hold the stream up.
    const tables = asPublished(read, locked);
    await this.#health.within(() => copies.makeForStream(tables, this.#ready(prepared, locked)));
    const behind = this.#stillBehind(prepared);
    if (behind.length > 0) await source.announceShapes(behind);
    const lacking = new Set(prepared.missing.filter(isUnpublished).map(({ relation }) => relation.id));
    this.#copyBlocker = ({ relation }) => (lacking.has(relation.id) ? locked : null);
    return tables;
  }

  /** Returns the error if a table is locked. Published tables go on meanwhile. */
  async #publish(source: Source): Promise<MillraceError | null> {
    const { locked, wasLocked } = await this.#publishing.publish(source);
    if (locked !== null || wasLocked) this.#health.warn("locked table", locked?.message ?? null);
    return locked;
  }

  /** With the missing tables that can be copied now. `locked`: why nothing was published; null: all are. */
  #ready(prepared: PreparedTables, locked: MillraceError | null): PreparedTables {
    if (locked === null || this.request.skipSnapshots) return prepared;
    return { ...prepared, missing: withoutUnpublished(prepared) };
  }

  /** A table that is about to be copied gets its shape with the copy. */
  #stillBehind({ behind, missing }: PreparedTables): readonly TableShape[] {
    return this.request.skipSnapshots ? behind : behind.filter((table) => !missing.includes(table));
  }

  #refreshTables(): void {
    this.#isRefreshDue = true;
    this.#events?.refreshTables();
  }

  #sinkEvents(meter: ProgressMeter, states: TableStates): SinkEvents {
    return {
      durable: (checkpoint, rows, bytes) => {
        this.#stream?.acknowledge(checkpoint.resumeLsn);
        meter.durable(checkpoint, rows, bytes);
      },
      warning: (topic, reason) => this.#health.warn(`sink ${topic}`, reason),
      failed: (error) => this.#events?.fail(error),
      setAside: (tables) => {
        states.setAside(tables);
        this.#health.setAside(tables);
      },
      changed: () => this.#refreshTables(),
      awaits: (lsn) => {
        if (this.#awaited === null || lsn > this.#awaited) this.#awaited = lsn;
        this.#stream?.reach(lsn);
      },
      retrying: (attempt, reason, inMs) => this.#health.retrying(attempt, reason, inMs),
    };
  }
}
