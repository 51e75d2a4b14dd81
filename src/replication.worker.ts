// Thread entry: the replication of connectors. Wires source, pipeline and sink of each to the main thread, which keeps the state;
// everything else is in those folders.

import type { TupleForm } from "./change/change-batch.ts";
import { areConnectionsBounded, parallelCopies } from "./connector/config/parallel-copies.ts";
import { slotName } from "./connector/connector-id.ts";
import { MillraceError, toMillraceError } from "./errors/millrace-error.ts";
import { defaultCopyPace, webhookCopyPace } from "./pipeline/copy/copy-pace.ts";
import { runPipeline } from "./pipeline/run-pipeline.ts";
import { TaskQueue } from "./pipeline/task-queue.ts";
import { checkpointStore, type MainThread, noteStore } from "./runtime/threads/main-thread.ts";
import type { FromReplicationWorker, ToReplicationWorker } from "./runtime/threads/messages.ts";
import { hostSeats, type Seat } from "./runtime/threads/seats.ts";
import { offeredTask, wireError, workerReporter } from "./runtime/threads/worker-reporter.ts";
import { createSink } from "./sink/registry.ts";
import { createSource } from "./source/registry.ts";
import { SourceNotes } from "./source/source-notes.ts";

declare const self: Worker;

/** How long the batch in hand may take once the run is told to stop. */
const stopGraceMs = 5_000;

type Start = Extract<ToReplicationWorker, { type: "start" }>;

class ReplicationSeat implements Seat<ToReplicationWorker> {
  readonly #main: MainThread<FromReplicationWorker>;
  readonly #tasks = new TaskQueue();
  readonly #stop = new AbortController();
  readonly #abort = new AbortController();
  #aborting: Timer | undefined;
  #life: Promise<void> | null = null;
  #webhook: MessagePort | null = null;

  constructor(main: MainThread<FromReplicationWorker>) {
    this.#main = main;
  }

  hear(message: ToReplicationWorker): void {
    switch (message.type) {
      case "start":
        this.#webhook = message.webhook;
        this.#life = this.#live(message);
        break;
      case "stop":
        this.#beginStop();
        break;
      case "task.offer":
        this.#tasks.offer(message.taskId, offeredTask(this.#main, message));
        break;
      case "reply":
        this.#main.settle(message);
        break;
      default:
        message satisfies never;
    }
  }

  async leave(): Promise<void> {
    this.#main.hangUp();
    this.#breakOff();
    await this.#life;
    this.#webhook?.close();
  }

  #beginStop(): void {
    this.#stop.abort();
    this.#aborting ??= setTimeout(() => this.#breakOff(), stopGraceMs);
  }

  /** Of what went on beside the run, too, and would end by itself only some time behind it. */
  #breakOff(): void {
    clearTimeout(this.#aborting);
    this.#abort.abort(new MillraceError("internal", "The run was stopped."));
  }

  async #live(start: Start): Promise<void> {
    try {
      const notes = await SourceNotes.load(noteStore(this.#main));
      await this.#run(start, notes).finally(() => notes.saved());
      this.#main.tell({ type: "ended", error: null });
    } catch (error) {
      this.#main.tell({ type: "ended", error: this.#stop.signal.aborted ? null : wireError(error) });
    }
  }

  async #run(start: Start, notes: SourceNotes): Promise<void> {
    let forms: readonly TupleForm[] = ["binary", "text"];
    let { initialized } = start;
    const reporter = workerReporter(this.#main, slotName(start.connector.id));
    while (true) {
      try {
        await this.#attempt(start, initialized, forms, notes, {
          ...reporter,
          async initialized() {
            await reporter.initialized();
            initialized = true;
          },
        });
        return;
      } catch (error) {
        // A relation came whose values cannot travel as binary: once more from the checkpoint, as text.
        if (toMillraceError(error).code !== "stream_form_changed" || forms.length === 1) throw error;
        forms = ["text"];
      }
    }
  }

  async #attempt(
    { connector, work, owner, isAfterRefusal, webhook }: Start,
    initialized: boolean,
    forms: readonly TupleForm[],
    notes: SourceNotes,
    reporter: ReturnType<typeof workerReporter>,
  ): Promise<void> {
    const source = connector.source.postgres;
    const skipSnapshots = source?.replication_type.logical_replication?.skip_snapshots ?? false;
    const { signal } = this.#abort;
    await runPipeline({
      work,
      initialized,
      forms,
      skipSnapshots,
      parallelCopies: parallelCopies(connector),
      areConnectionsBounded: areConnectionsBounded(connector),
      copyPace: connector.sink.webhook ? webhookCopyPace : defaultCopyPace,
      makeSource: (events) =>
        createSource(connector, {
          ...{ signal, owner, notes, events, isBegun: initialized },
          sinkFollowsShapes: connector.sink.postgres !== undefined,
        }),
      makeSink: (events) =>
        createSink(
          connector,
          {
            ...{ connectorId: connector.id, owner, signal, isAfterRefusal, events },
            checkpoints: checkpointStore(this.#main),
            makesCopies: !skipSnapshots,
          },
          webhook,
        ),
      reporter,
      tasks: this.#tasks,
      stop: this.#stop.signal,
      abort: signal,
    });
  }
}

hostSeats<ToReplicationWorker, FromReplicationWorker>(self, (main) => new ReplicationSeat(main));
