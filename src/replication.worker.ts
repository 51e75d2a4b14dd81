// Thread entry for the replication of connectors. It wires each connector's source, pipeline and sink to the main
// thread, which owns the state.

import type { TupleForm } from "./change/change-batch.ts";
import { areConnectionsBounded, parallelCopies, verifyLanes } from "./connector/config/parallel-copies.ts";
import type { ConnectorConfig } from "./connector/connector.ts";
import { slotName } from "./connector/connector-id.ts";
import { MillraceError, toMillraceError } from "./errors/millrace-error.ts";
import {
  type CopyPace,
  defaultCopyPace,
  transactionCopyPace,
  webhookCopyPace,
} from "./pipeline/copy/copy-pace.ts";
import { CountedChanges } from "./pipeline/counted-changes.ts";
import { runPipeline } from "./pipeline/run-pipeline.ts";
import { TaskQueue } from "./pipeline/tasks/task-queue.ts";
import { type Assignment, hostAssignments } from "./runtime/threads/assignments.ts";
import {
  checkpointStore,
  type MainThreadChannel,
  sourceStateStore,
} from "./runtime/threads/main-thread-channel.ts";
import type { FromReplicationWorker, ToReplicationWorker } from "./runtime/threads/messages.ts";
import { offeredTask, wireError, workerReporter } from "./runtime/threads/worker-reporter.ts";
import { sinkMaker } from "./sink/registry.ts";
import { webhookBatchBytes } from "./sink/webhook/stream-size.ts";
import { sourceMaker } from "./source/registry.ts";
import { SourceState } from "./source/source-state.ts";

declare const self: Worker;

/** How long the current batch may take after the run was asked to stop. */
const stopGraceMs = 5_000;

type Start = Extract<ToReplicationWorker, { type: "start" }>;

class ReplicationAssignment implements Assignment<ToReplicationWorker> {
  readonly #main: MainThreadChannel<FromReplicationWorker>;
  readonly #tasks = new TaskQueue();
  #counted = new CountedChanges();
  readonly #stop = new AbortController();
  readonly #abort = new AbortController();
  #abortTimer: Timer | undefined;
  #running: Promise<void> | null = null;
  #delivery: MessagePort | null = null;

  constructor(main: MainThreadChannel<FromReplicationWorker>) {
    this.#main = main;
  }

  receive(message: ToReplicationWorker): void {
    switch (message.type) {
      case "start":
        this.#delivery = message.delivery;
        this.#counted = new CountedChanges(message.counted);
        this.#running = this.#execute(message);
        break;
      case "stop":
        this.#finish();
        break;
      case "task.offer":
        this.#tasks.offer(message.taskId, offeredTask(this.#main, message));
        break;
      case "task.cancel":
        this.#tasks.cancel(message.taskId);
        break;
      case "reply":
        this.#main.receiveReply(message);
        break;
      default:
        message satisfies never;
    }
  }

  async stop(): Promise<void> {
    this.#main.close();
    this.#abortRun();
    await this.#running;
    this.#delivery?.close();
  }

  /** Ends the run after the current batch, or when that takes too long. */
  #finish(): void {
    this.#stop.abort();
    this.#abortTimer ??= setTimeout(() => this.#abortRun(), stopGraceMs);
  }

  /** Also ends work outside the stream that would end only some time after the run. */
  #abortRun(): void {
    clearTimeout(this.#abortTimer);
    this.#abort.abort(new MillraceError("internal", "The run was stopped."));
  }

  async #execute(start: Start): Promise<void> {
    try {
      const state = await SourceState.load(sourceStateStore(this.#main), start.term !== null);
      await this.#run(start, state).finally(() => state.saved());
      this.#main.send({ type: "ended", error: null });
    } catch (error) {
      this.#main.send({ type: "ended", error: this.#stop.signal.aborted ? null : wireError(error) });
    }
  }

  async #run(start: Start, state: SourceState): Promise<void> {
    let forms: readonly TupleForm[] = ["binary", "text"];
    let { initialized, resumes } = start;
    const reporter = workerReporter(this.#main, slotName(start.connector.id));
    while (true) {
      try {
        await this.#attempt({ ...start, initialized, resumes }, forms, state, {
          ...reporter,
          async initialized() {
            await reporter.initialized();
            initialized = true;
            resumes = false;
          },
        });
        return;
      } catch (error) {
        // A relation came whose values have no binary form: once more from the checkpoint, as text.
        if (toMillraceError(error).code !== "stream_form_changed" || forms.length === 1) throw error;
        forms = ["text"];
      }
    }
  }

  async #attempt(
    { connector, work, owner, term, initialized, resumes, isAfterRefusal, delivery }: Start,
    forms: readonly TupleForm[],
    state: SourceState,
    reporter: ReturnType<typeof workerReporter>,
  ): Promise<void> {
    const source = connector.source.postgres;
    const skipSnapshots = source?.replication_type.logical_replication?.skip_snapshots ?? false;
    const { signal } = this.#abort;
    const [makeSource, makeSink] = await Promise.all([sourceMaker(connector), sinkMaker(connector)]);
    await runPipeline({
      work,
      initialized,
      resumes,
      forms,
      skipSnapshots,
      parallelCopies: parallelCopies(connector),
      areConnectionsBounded: areConnectionsBounded(connector),
      copyPace: copyPace(connector),
      verifyLanes: verifyLanes(connector),
      makeSource: (events) =>
        makeSource({
          connectorId: connector.id,
          signal,
          owner,
          term,
          state,
          events,
          isBegun: initialized,
          resumes,
          sinkFollowsShapes: connector.sink.postgres !== undefined,
          batchBytes: connector.sink.webhook ? webhookBatchBytes : undefined,
        }),
      makeSink: (events) =>
        makeSink(
          {
            connectorId: connector.id,
            owner,
            term,
            signal,
            isAfterRefusal,
            events,
            checkpoints: checkpointStore(this.#main),
            makesCopies: !skipSnapshots,
          },
          delivery,
        ),
      counted: this.#counted,
      reporter,
      tasks: this.#tasks,
      stop: this.#stop.signal,
      abort: signal,
    });
  }
}

function copyPace({ sink }: ConnectorConfig): CopyPace {
  if (sink.kafka) return transactionCopyPace;
  return sink.webhook ? webhookCopyPace : defaultCopyPace;
}

hostAssignments<ToReplicationWorker, FromReplicationWorker>(self, (main) => new ReplicationAssignment(main));
