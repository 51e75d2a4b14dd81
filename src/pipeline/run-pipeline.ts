// One attempt of a run: begins or takes up where the sink stands, copies what is missing, then carries changes until it is
// told to stop. It knows neither the kind of the source nor that of the sink.

import type { ChangeBatch, TupleForm } from "../change/change-batch.ts";
import type { Checkpoint } from "../change/checkpoint.ts";
import { qualifiedName, type TableShape } from "../change/relation.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import type { Sink, SinkEvents } from "../sink/sink.ts";
import type { ChangeStream, SnapshotPoint, Source } from "../source/source.ts";
import { copyTables } from "./initial-copy.ts";
import { ProgressMeter } from "./progress-meter.ts";
import type { PhaseHealth, RunReporter, TaskInbox } from "./run-reporter.ts";
import { runSnapshotTask } from "./snapshot-task.ts";

export interface PipelineRequest {
  /** The connector has begun once: a checkpoint that is missing then is a loss. */
  readonly initialized: boolean;
  readonly skipSnapshots: boolean;
  readonly parallelCopies: number;
  /** The forms that the stream may take. */
  readonly forms: readonly TupleForm[];
  readonly makeSource: (warning: (reason: string | null) => void) => Source;
  readonly makeSink: (events: SinkEvents) => Sink;
  readonly reporter: RunReporter;
  readonly tasks: TaskInbox;
  /** Finish the batch in hand, then return. */
  readonly stop: AbortSignal;
  /** Break everything off. */
  readonly abort: AbortSignal;
}

/** Returns when it was stopped; throws what ended it otherwise. */
export async function runPipeline(request: PipelineRequest): Promise<void> {
  const run = new PipelineRun(request);
  await run.toTheEnd();
}

class PipelineRun {
  #stream: ChangeStream | null = null;
  #health: (health: PhaseHealth) => void = () => {};

  constructor(private readonly request: PipelineRequest) {}

  async toTheEnd(): Promise<void> {
    const { request } = this;
    const { reporter } = request;
    const step = (name: string) => reporter.phase({ name: "initialize", step: name }, { kind: "start" });
    this.#health = (health) => reporter.phase({ name: "initialize", step: "prepare" }, health);
    using meter = new ProgressMeter(
      (progress) => reporter.progress(progress),
      () => this.#stream?.lag().bytes ?? 0,
    );
    await using source = request.makeSource((reason) => this.#warn(reason));
    await using sink = request.makeSink(this.#sinkEvents(meter));
    step("connect to the sink");
    const { checkpoint: known, copied } = await sink.open();
    step("read the source's tables");
    const tables = await source.tables();
    const begun = await this.#begin(source, sink, known);
    await reporter.initialized();
    const form = await sink.prepare(tables, request.forms);
    await using point = begun.point;
    if (!request.skipSnapshots) {
      const missing = tables.filter((table) => begun.isNew || !copied.has(qualifiedName(table.relation)));
      await this.#copy(source, sink, meter, missing, point);
    }
    await point?.[Symbol.asyncDispose]();
    if (request.stop.aborted) return;
    await this.#carry(source, sink, meter, begun.checkpoint, form);
  }

  /** Where the stream is to begin. A connector that has not begun, or is to begin anew, gets a new slot. */
  async #begin(source: Source, sink: Sink, known: Checkpoint | null): Promise<Beginning> {
    if (this.request.initialized) {
      if (known === null) {
        throw new MillraceError(
          "checkpoint_missing",
          "The sink no longer holds this connector's checkpoint: it was emptied, or is another one. " +
            "Send the command ReIntialize to copy the tables again.",
        );
      }
      await source.checkSlot(known);
      return { checkpoint: known, point: null, isNew: false };
    }
    // Nothing was delivered from a slot before `initialized` was reported, or it is to be delivered again.
    if (known !== null) await sink.forget();
    const point = await source.createSlot();
    const checkpoint = { resumeLsn: point.lsn, partial: null, lastVersion: point.timeUs };
    await sink.begin(checkpoint);
    return { checkpoint, point, isNew: true };
  }

  async #copy(
    source: Source,
    sink: Sink,
    meter: ProgressMeter,
    tables: readonly TableShape[],
    ofSlot: SnapshotPoint | null,
  ): Promise<void> {
    if (tables.length === 0) return;
    const { reporter, parallelCopies } = this.request;
    await using own = ofSlot === null ? await source.snapshotPoint() : null;
    const point = ofSlot ?? own;
    if (point === null) return;
    await copyTables({ source, sink, reporter, meter, parallel: parallelCopies }, tables, point);
  }

  async #carry(
    source: Source,
    sink: Sink,
    meter: ProgressMeter,
    checkpoint: Checkpoint,
    form: TupleForm,
  ): Promise<void> {
    const { reporter, stop, tasks, abort } = this.request;
    this.#health = (health) => reporter.phase({ name: "realtime" }, health);
    await using stream = await source.stream(checkpoint, form);
    this.#stream = stream;
    this.#health({ kind: "start" });
    const stopped = aborted(stop);
    let next: Promise<ChangeBatch> | null = null;
    let isWhole = true;
    while (!stop.aborted) {
      if (next === null) {
        next = stream.next();
        next.catch(() => {});
      }
      const batch: ChangeBatch | null = await Promise.race([
        next,
        stopped,
        ...(isWhole ? [tasks.arrival().then(() => null)] : []),
      ]);
      if (stop.aborted) break;
      const task = isWhole ? tasks.take() : null;
      if (task) await runSnapshotTask(source, sink, task, abort);
      if (!batch) continue;
      next = null;
      meter.writing(batch);
      await sink.write(batch);
      isWhole = !batch.endsInTransaction;
    }
    this.#stream = null;
  }

  #sinkEvents(meter: ProgressMeter): SinkEvents {
    return {
      durable: (checkpoint, rows, bytes) => {
        this.#stream?.acknowledge(checkpoint.resumeLsn);
        meter.durable(checkpoint, rows, bytes);
      },
      warning: (reason) => this.#warn(reason),
      retrying: (attempt, reason) =>
        this.#health(attempt === null ? { kind: "heartbeat" } : { kind: "retry", attempt, reason }),
    };
  }

  #warn(reason: string | null): void {
    this.#health(reason === null ? { kind: "heartbeat" } : { kind: "warning", reason });
  }
}

interface Beginning {
  readonly checkpoint: Checkpoint;
  /** The point of a slot that was made just now. */
  readonly point: SnapshotPoint | null;
  readonly isNew: boolean;
}

function aborted(signal: AbortSignal): Promise<null> {
  if (signal.aborted) return Promise.resolve(null);
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(null), { once: true }));
}
