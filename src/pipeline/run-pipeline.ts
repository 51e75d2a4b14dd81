// One attempt of a run: begins or takes up where the sink stands, copies what is missing, then carries changes until it is
// told to stop. It knows neither the kind of the source nor that of the sink.

import type { TupleForm } from "../change/change-batch.ts";
import type { Checkpoint } from "../change/checkpoint.ts";
import type { Lsn } from "../change/lsn.ts";
import type { TableShape } from "../change/relation.ts";
import { releaseBytes } from "../change/release-bytes.ts";
import { isGivenUp } from "../errors/given-up.ts";
import { MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import type { PreparedTables, Sink, SinkEvents } from "../sink/sink.ts";
import type { ChangeStream, Source, SourceEvents } from "../source/source.ts";
import { beginRun, type Found, lookAtBothSides } from "./beginning.ts";
import type { CopyPace } from "./copy/copy-pace.ts";
import { MissingCopies } from "./copy/missing-copies.ts";
import { runSnapshotTask } from "./copy/snapshot-task.ts";
import { tasksBeside } from "./copy/task-beside.ts";
import type { RetryPace } from "./copy/unreadable-tables.ts";
import { lockedPauseMs, publishUnlessLocked } from "./locked-tables.ts";
import { LogWatch } from "./log-watch.ts";
import { ProgressMeter } from "./progress-meter.ts";
import { RunHealth } from "./run-health.ts";
import type { RunReporter, TaskInbox } from "./run-reporter.ts";
import type { RunWork } from "./run-work.ts";
import { StreamEvents } from "./stream-events.ts";
import { StreamPlace } from "./stream-place.ts";

export interface PipelineRequest {
  readonly work: RunWork;
  /** The connector has begun once: a checkpoint that is missing then is a loss. */
  readonly initialized: boolean;
  readonly skipSnapshots: boolean;
  readonly parallelCopies: number;
  /** `parallelCopies` is what there are connections for. */
  readonly areConnectionsBounded?: boolean;
  readonly copyPace?: CopyPace;
  /** How often what cannot be read is tried again. */
  readonly retryPace?: RetryPace;
  /** How often it is asked what the source keeps of its log, where that may be much. */
  readonly logWatchMs?: number;
  /** The forms that the stream may take. */
  readonly forms: readonly TupleForm[];
  readonly makeSource: (events: SourceEvents) => Source;
  readonly makeSink: (events: SinkEvents) => Sink;
  readonly reporter: RunReporter;
  readonly tasks: TaskInbox;
  /** Finish the batch in hand, then return. */
  readonly stop: AbortSignal;
  /** Break everything off. */
  readonly abort: AbortSignal;
}

/** Returns when it was stopped, or all its work is done; throws what ended it otherwise. */
export async function runPipeline(request: PipelineRequest): Promise<void> {
  await attempt(request, true);
}

async function attempt(request: PipelineRequest, takesInProgress: boolean): Promise<void> {
  try {
    await new PipelineRun(request, takesInProgress).toTheEnd();
  } catch (error) {
    const { stop } = request;
    const comesAgain = takesInProgress && isGivenUp(error);
    // There was nothing to finish: a point was waited for, or what was given up would have come again.
    if (stop.aborted && (comesAgain || error === stop.reason)) return;
    if (!comesAgain) throw error;
    // There was a stream: the connector has begun.
    await attempt({ ...request, initialized: true }, false);
  }
}

/** A source that does not answer meanwhile keeps nobody. */
const lookMs = 3_000;

function isOfSink(error: unknown): boolean {
  return /^(?:sink|webhook)_/.test(toMillraceError(error).code);
}

class PipelineRun {
  readonly #health: RunHealth;
  #stream: ChangeStream | null = null;
  #events: StreamEvents | null = null;
  #logWatch: LogWatch | null = null;
  /** The sink wants another look at the tables, maybe since before there was a stream. */
  #isLookDue = false;
  /** Where the sink wants the stream to come to, maybe since before there was one. */
  #awaited: Lsn | null = null;
  /** Runs when a table that was locked is to be published again. */
  #lockedPause: Timer | undefined;
  /** Why the table cannot be copied now; null: it can. */
  #hindrance: (table: TableShape) => MillraceError | null = () => null;
  /** Between two batches, for longer. */
  #isStanding = false;

  constructor(
    private readonly request: PipelineRequest,
    private readonly takesInProgress: boolean,
  ) {
    this.#health = new RunHealth(request.reporter);
  }

  async toTheEnd(): Promise<void> {
    const { request } = this;
    const { reporter } = request;
    using meter = new ProgressMeter(
      (progress) => reporter.progress(progress),
      () => this.#stream?.lag().bytes ?? this.#logWatch?.bytes ?? null,
      () => this.#logWatch?.slot ?? null,
    );
    await using source = request.makeSource({
      warning: (topic, reason) => this.#health.warn(`source ${topic}`, reason),
    });
    using logWatch = new LogWatch(
      source,
      () => this.#mayKeepMuch(),
      (reason) => this.#health.warn("log", reason),
      request.logWatchMs,
    );
    this.#logWatch = logWatch;
    using _pause = { [Symbol.dispose]: () => clearTimeout(this.#lockedPause) };
    await using sink = request.makeSink(this.#sinkEvents(meter));
    this.#health.step("connect to the sink, and read the source's tables");
    try {
      await this.#work(source, sink, meter);
    } catch (error) {
      this.#stream = null;
      // The next attempt may fail as soon: what the source has to keep meanwhile is known all the same.
      if (!request.abort.aborted && isOfSink(error)) await Promise.race([logWatch.look(), Bun.sleep(lookMs)]);
      throw error;
    }
  }

  async #work(source: Source, sink: Sink, meter: ProgressMeter): Promise<void> {
    const { request } = this;
    const found = await lookAtBothSides(request, source, sink);
    using copies = this.#copiesOf(source, sink, meter);
    const begun = await this.#beginAndCopy(source, sink, copies, found);
    if (request.stop.aborted) return;
    if (request.work === "changes") return await this.#carry(source, sink, copies, meter, begun);
    await copies.finish(
      () => this.#carryOutTasks(source, sink, copies),
      (wake) => request.tasks.onArrival(wake),
    );
  }

  /** While nothing is acknowledged, the stream does not tell how far the server is. */
  #mayKeepMuch(): boolean {
    return this.#stream === null || this.#isStanding || this.#stream.lag().isInTheDark;
  }

  #copiesOf(source: Source, sink: Sink, meter: ProgressMeter): MissingCopies {
    return new MissingCopies({
      ...this.request,
      ...{ source, sink, meter, reporter: this.#health },
    });
  }

  /** The snapshot that a new slot brings is held until the tables are copied at most. */
  async #beginAndCopy(source: Source, sink: Sink, copies: MissingCopies, found: Found): Promise<Begun> {
    await using held = new AsyncDisposableStack();
    const step = (name: string) => this.#health.step(name);
    const { checkpoint, point } = await beginRun(this.request, source, sink, found, step);
    if (point) held.use(point);
    await this.request.reporter.initialized();
    const { tables } = found;
    const prepared = await copies.prepare(tables);
    const locked = point === null ? await this.#publish(source) : null;
    const ready = this.#unlessLocked(prepared, locked);
    // Without a copy of any table the stream has nothing to go on for.
    const isBeginning = ready.missing.length === tables.length && ready.hasChanges !== true;
    const isBesideStream = this.request.initialized && !isBeginning && this.request.work === "changes";
    const now = isBesideStream ? await copies.beginBeside(ready) : ready;
    if (this.request.work !== "tasks") await copies.make(tables, now, point);
    const takesInProgress = this.takesInProgress && prepared.takesInProgress === true;
    return { checkpoint, form: prepared.form, takesInProgress, behind: this.#stillBehind(prepared) };
  }

  async #carry(
    source: Source,
    sink: Sink,
    copies: MissingCopies,
    meter: ProgressMeter,
    { checkpoint, form, takesInProgress, behind }: Begun,
  ): Promise<void> {
    const { stop, tasks } = this.request;
    await using stream = await source.stream(checkpoint, form, takesInProgress);
    this.#stream = stream;
    if (this.#awaited !== null) stream.reach(this.#awaited);
    this.#health.enter({ name: "realtime" });
    if (behind.length > 0) await source.announceShapes(behind);
    using events = new StreamEvents(stream, source, tasks, stop);
    this.#events = events;
    copies.retryBeside(() => events.lookAgain());
    if (this.#isLookDue) events.lookAgain();
    meter.takesUpAt(checkpoint);
    const place = new StreamPlace(checkpoint.resumeLsn, stream);
    const listTables = () => this.#adoptTables(source, copies, form);
    const hindrance = (table: TableShape) => this.#hindrance(table);
    const beside = { source, sink, place, listTables, hindrance };
    const ended = () => (copies.areSomeLate ? events.lookAgain() : this.#health.goOn());
    await using running = tasksBeside(this.request, beside, events, copies.first, ended);
    copies.shareWith(running);
    for (let isWhole = true; !stop.aborted; ) {
      const event = await events.next(isWhole, running.mayRun);
      place.isHeld = true;
      this.#isStanding = event.type === "turn" || event.type === "tables";
      switch (event.type) {
        case "batch":
          await meter.write(event.batch, (batch) => sink.write(batch));
          releaseBytes(event.batch.arena);
          place.wrote(event.batch);
          if (!event.batch.inProgress) isWhole = !event.batch.endsInTransaction;
          break;
        case "task":
          running.start(event.task);
          break;
        case "turn":
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
      this.#isStanding = false;
      place.isHeld = false;
    }
    this.#stream = null;
  }

  /** Without a stream: one after the other, until none waits. */
  async #carryOutTasks(source: Source, sink: Sink, copies: MissingCopies): Promise<void> {
    const { tasks, stop } = this.request;
    const listTables = async () => {
      const tables = await source.tables();
      await copies.prepare(tables);
      return tables;
    };
    for (let task = tasks.take(); task && !stop.aborted; task = tasks.take()) {
      await runSnapshotTask(source, sink, task, listTables, stop);
      this.#health.goOn();
    }
  }

  /** Takes in tables that have come since the run began, or have changed, between two batches. Returns all. */
  async #adoptTables(source: Source, copies: MissingCopies, form: TupleForm): Promise<readonly TableShape[]> {
    const tables = await source.tables();
    const prepared = await copies.prepare(tables);
    const { form: wanted } = prepared;
    if (wanted !== form && form === "binary") {
      throw new MillraceError("stream_form_changed", "A table has come that cannot travel as bytes.");
    }
    const locked = await this.#publish(source);
    await this.#health.within(() => copies.makeBeside(tables, this.#unlessLocked(prepared, locked)));
    const behind = this.#stillBehind(prepared);
    if (behind.length > 0) await source.announceShapes(behind);
    const lacking = new Set(prepared.missing.map(({ relation }) => relation.id));
    this.#hindrance = ({ relation }) => (lacking.has(relation.id) ? locked : null);
    return tables;
  }

  /** Returns why not: a table is locked. It is tried again by itself, and what is published goes on. */
  async #publish(source: Source): Promise<MillraceError | null> {
    const locked = await publishUnlessLocked(source);
    const wasLocked = this.#lockedPause !== undefined;
    if (locked !== null || wasLocked) this.#health.warn("locked table", locked?.message ?? null);
    this.#lockedPause = locked === null ? undefined : setTimeout(() => this.#lookAgain(), lockedPauseMs);
    return locked;
  }

  /** Before it is published nothing is copied: changes from behind the copy would be missed. */
  #unlessLocked(prepared: PreparedTables, locked: MillraceError | null): PreparedTables {
    return locked && !this.request.skipSnapshots ? { ...prepared, missing: [] } : prepared;
  }

  /** A table that is copied gets its shape with its copy. */
  #stillBehind({ behind, missing }: PreparedTables): readonly TableShape[] {
    return this.request.skipSnapshots ? behind : behind.filter((table) => !missing.includes(table));
  }

  #lookAgain(): void {
    this.#isLookDue = true;
    this.#events?.lookAgain();
  }

  #sinkEvents(meter: ProgressMeter): SinkEvents {
    return {
      durable: (checkpoint, rows, bytes) => {
        this.#stream?.acknowledge(checkpoint.resumeLsn);
        meter.durable(checkpoint, rows, bytes);
      },
      warning: (topic, reason) => this.#health.warn(`sink ${topic}`, reason),
      failed: (error) => this.#events?.fail(error),
      setAside: (tables) => this.#health.setAside(tables),
      mended: () => this.#lookAgain(),
      awaits: (lsn) => {
        if (this.#awaited === null || lsn > this.#awaited) this.#awaited = lsn;
        this.#stream?.reach(lsn);
      },
      retrying: (attempt, reason) => this.#health.retrying(attempt, reason),
    };
  }
}

/** What the stream begins with. */
interface Begun {
  readonly checkpoint: Checkpoint;
  readonly form: TupleForm;
  readonly takesInProgress: boolean;
  /** Tables whose shape the sink wants to be told by the stream. */
  readonly behind: readonly TableShape[];
}
