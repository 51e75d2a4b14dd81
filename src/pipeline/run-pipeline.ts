// One attempt of a run: begins or takes up where the sink stands, copies what is missing, then carries changes until it is
// told to stop. It knows neither the kind of the source nor that of the sink.

import type { TupleForm } from "../change/change-batch.ts";
import { areOfOneDatabase, type Checkpoint } from "../change/checkpoint.ts";
import type { TableShape } from "../change/relation.ts";
import { releaseBytes } from "../change/release-bytes.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import type { PreparedTables, SetAsideTable, Sink, SinkEvents } from "../sink/sink.ts";
import type { ChangeStream, SnapshotPoint, Source, SourceEvents } from "../source/source.ts";
import { CopyPoints } from "./copy-points.ts";
import { type CopyPace, copyOwedRows, copyTables, defaultCopyPace } from "./initial-copy.ts";
import { ProgressMeter } from "./progress-meter.ts";
import type { PhaseHealth, RunReporter, TaskInbox } from "./run-reporter.ts";
import type { RunWork } from "./run-work.ts";
import { describeSetAside } from "./set-aside-warning.ts";
import { runSnapshotTask } from "./snapshot-task.ts";
import { StandingWarnings } from "./standing-warnings.ts";
import { StreamEvents } from "./stream-events.ts";

export interface PipelineRequest {
  readonly work: RunWork;
  /** The connector has begun once: a checkpoint that is missing then is a loss. */
  readonly initialized: boolean;
  readonly skipSnapshots: boolean;
  readonly parallelCopies: number;
  readonly copyPace?: CopyPace;
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
  const run = new PipelineRun(request);
  try {
    await run.toTheEnd();
  } catch (error) {
    // A point that was waited for: there was nothing to finish.
    if (!request.stop.aborted || error !== request.stop.reason) throw error;
  }
}

class PipelineRun {
  readonly #warnings = new StandingWarnings();
  #stream: ChangeStream | null = null;
  #events: StreamEvents | null = null;
  #health: (health: PhaseHealth) => void = () => {};

  constructor(private readonly request: PipelineRequest) {}

  async toTheEnd(): Promise<void> {
    const { request } = this;
    const { reporter } = request;
    using meter = new ProgressMeter(
      (progress) => reporter.progress(progress),
      () => this.#stream?.lag().bytes ?? 0,
    );
    await using source = request.makeSource({
      warning: (topic, reason) => this.#warn(`source ${topic}`, reason),
    });
    await using sink = request.makeSink(this.#sinkEvents(meter));
    this.#step("connect to the sink");
    const known = await sink.open();
    this.#step("read the source's tables");
    const tables = await source.tables();
    const begun = await this.#beginAndCopy(source, sink, meter, known, tables);
    if (request.stop.aborted) return;
    if (request.work === "changes") await this.#carry(source, sink, meter, begun);
    else await this.#carryOutTasks(source, sink);
  }

  /** The snapshot that a new slot brings is held until the tables are copied at most. */
  async #beginAndCopy(
    source: Source,
    sink: Sink,
    meter: ProgressMeter,
    known: Checkpoint | null,
    tables: readonly TableShape[],
  ): Promise<Begun> {
    await using held = new AsyncDisposableStack();
    const { checkpoint, point } = await this.#begin(source, sink, known, held);
    await this.request.reporter.initialized();
    const prepared = await sink.prepare(tables, this.request.forms);
    if (point === null) await source.publish();
    if (this.request.work !== "tasks") await this.#copy(source, sink, meter, prepared, point);
    return { checkpoint, form: prepared.form, behind: this.#stillBehind(prepared) };
  }

  /** Where the stream is to begin. A connector that has not begun, or is to begin anew, gets a new slot. */
  async #begin(
    source: Source,
    sink: Sink,
    known: Checkpoint | null,
    held: AsyncDisposableStack,
  ): Promise<Beginning> {
    if (this.request.initialized) {
      if (known === null) {
        throw new MillraceError(
          "checkpoint_missing",
          "The sink no longer holds this connector's checkpoint: it was emptied, or is another one. " +
            "Send the command ReIntialize to copy the tables again.",
        );
      }
      if (this.request.work !== "changes") return { checkpoint: known, point: null };
      this.#step("check the replication slot");
      const log = await source.checkSlot(known);
      // Before anything is delivered from it: an LSN means something in one log only.
      if (log !== known.log) await sink.goOnIn(log);
      return { checkpoint: { ...known, log }, point: null };
    }
    const hasStream = this.request.work === "changes";
    // Nothing was delivered from a slot before `initialized` was reported, or it is to be delivered again.
    if (hasStream && known !== null) await sink.forget(false);
    const point = await this.#firstPoint(source);
    held.use(point);
    // Without a checkpoint the shapes that are known may be those of another source.
    if (!hasStream) await sink.forget(areOfOneDatabase(point.log, known?.log));
    const checkpoint = { resumeLsn: point.lsn, partial: null, lastVersion: point.timeUs, log: point.log };
    await sink.begin(checkpoint);
    return { checkpoint, point };
  }

  async #firstPoint(source: Source): Promise<SnapshotPoint> {
    const { work, stop } = this.request;
    if (work !== "changes") {
      this.#step("take a snapshot of the source");
      return await source.snapshotPoint(stop);
    }
    this.#step("make the replication slot");
    await source.publish();
    return await source.createSlot(stop);
  }

  async #copy(
    source: Source,
    sink: Sink,
    meter: ProgressMeter,
    { missing: tables, isOrdered, owed = [] }: PreparedTables,
    ofSlot: SnapshotPoint | null,
  ): Promise<void> {
    const { reporter, parallelCopies, skipSnapshots, stop, copyPace: pace = defaultCopyPace } = this.request;
    if (skipSnapshots || (tables.length === 0 && owed.length === 0)) return;
    const first = ofSlot ?? (await source.snapshotPoint(stop));
    await using points = this.#points(source, first, isOrdered);
    for (const rows of owed) await points.use((point) => copyOwedRows(source, sink, rows, point));
    if (tables.length === 0) return;
    const parallel = isOrdered ? 1 : parallelCopies;
    await copyTables({ source, sink, reporter, meter, pace, parallel, isOrdered, stop }, tables, points);
  }

  /** Where no stream brings what lies between, all copies are as of one point. */
  #points(source: Source, first: SnapshotPoint, isOrdered = false): CopyPoints {
    const { work, stop, copyPace = defaultCopyPace } = this.request;
    const next = work === "changes" && !isOrdered ? () => source.snapshotPoint(stop) : null;
    return new CopyPoints(first, { next, heldMs: copyPace.pointHeldMs });
  }

  async #carry(
    source: Source,
    sink: Sink,
    meter: ProgressMeter,
    { checkpoint, form, behind }: Begun,
  ): Promise<void> {
    const { reporter, stop, tasks } = this.request;
    await using stream = await source.stream(checkpoint, form);
    this.#stream = stream;
    this.#enter((health) => reporter.phase({ name: "realtime" }, health));
    if (behind.length > 0) await source.announceShapes(behind);
    using events = new StreamEvents(stream, source, tasks, stop);
    this.#events = events;
    for (let isWhole = true; !stop.aborted; ) {
      const event = await events.next(isWhole);
      switch (event.type) {
        case "batch":
          meter.writing(event.batch);
          await sink.write(event.batch);
          releaseBytes(event.batch.arena);
          isWhole = !event.batch.endsInTransaction;
          break;
        case "task": {
          const listTables = () => this.#adoptTables(source, sink, meter, form);
          await runSnapshotTask(source, sink, event.task, listTables, stop);
          this.#goOn();
          break;
        }
        case "tables":
          await this.#adoptTables(source, sink, meter, form);
          this.#goOn();
          break;
        case "stop":
          break;
        default:
          event satisfies never;
      }
    }
    this.#stream = null;
  }

  /** Without a stream: one after the other, until none waits. */
  async #carryOutTasks(source: Source, sink: Sink): Promise<void> {
    const { tasks, stop, forms } = this.request;
    const listTables = async () => {
      const tables = await source.tables();
      await sink.prepare(tables, forms);
      return tables;
    };
    for (let task = tasks.take(); task && !stop.aborted; task = tasks.take()) {
      await runSnapshotTask(source, sink, task, listTables, stop);
      this.#goOn();
    }
  }

  /** Takes in tables that have come since the run began, or have changed, between two batches. Returns all. */
  async #adoptTables(
    source: Source,
    sink: Sink,
    meter: ProgressMeter,
    form: TupleForm,
  ): Promise<readonly TableShape[]> {
    const tables = await source.tables();
    const prepared = await sink.prepare(tables, this.request.forms);
    const { form: wanted, missing } = prepared;
    if (wanted !== form && form === "binary") {
      throw new MillraceError("stream_form_changed", "A table has come that cannot travel as bytes.");
    }
    await source.publish();
    if (missing.length > 0 || prepared.owed) await sink.flush();
    await this.#copy(source, sink, meter, prepared, null);
    const behind = this.#stillBehind(prepared);
    if (behind.length > 0) await source.announceShapes(behind);
    return tables;
  }

  /** A table that is copied gets its shape with its copy. */
  #stillBehind({ behind, missing }: PreparedTables): readonly TableShape[] {
    return this.request.skipSnapshots ? behind : behind.filter((table) => !missing.includes(table));
  }

  #sinkEvents(meter: ProgressMeter): SinkEvents {
    return {
      durable: (checkpoint, rows, bytes) => {
        this.#stream?.acknowledge(checkpoint.resumeLsn);
        meter.durable(checkpoint, rows, bytes);
      },
      warning: (topic, reason) => this.#warn(`sink ${topic}`, reason),
      failed: (error) => this.#events?.fail(error),
      setAside: (tables) => this.#setAside(tables),
      mended: () => this.#events?.lookAgain(),
      retrying: (attempt, reason) =>
        attempt === null ? this.#goOn() : this.#health({ kind: "retry", attempt, reason }),
    };
  }

  #setAside(tables: readonly SetAsideTable[]): void {
    this.request.reporter.setAside(tables);
    const isNews = this.#warnings.set("tables set aside", describeSetAside(tables));
    if (isNews) this.#goOn();
  }

  /** A step of the beginning; what is warned of meanwhile is shown with it. */
  #step(step: string): void {
    const { reporter } = this.request;
    this.#enter((health) => reporter.phase({ name: "initialize", step }, health));
  }

  /** Another phase begins, under what has been warned of. */
  #enter(health: (health: PhaseHealth) => void): void {
    this.#health = health;
    health({ kind: "start" });
    if (this.#warnings.text !== null) this.#goOn();
  }

  #warn(topic: string, reason: string | null): void {
    this.#warnings.set(topic, reason);
    this.#goOn();
  }

  /** Shows the run as it goes on, with the warnings that stand. */
  #goOn(): void {
    const reason = this.#warnings.text;
    this.#health(reason === null ? { kind: "heartbeat" } : { kind: "warning", reason });
  }
}

/** What the stream begins with. */
interface Begun {
  readonly checkpoint: Checkpoint;
  readonly form: TupleForm;
  /** Tables whose shape the sink wants to be told by the stream. */
  readonly behind: readonly TableShape[];
}

interface Beginning {
  readonly checkpoint: Checkpoint;
  /** The point of a slot that was made just now. */
  readonly point: SnapshotPoint | null;
}
