// Thread entry: the replication of one connector. Wires source, pipeline and sink to the main thread, which keeps the state;
// everything else is in those folders.

import type { TupleForm } from "./change/change-batch.ts";
import { slotName } from "./connector/connector-id.ts";
import { areConnectionsBounded, parallelCopies } from "./connector/parallel-copies.ts";
import { MillraceError, toMillraceError } from "./errors/millrace-error.ts";
import { threadPulse } from "./measure/thread-pulse.ts";
import { runPipeline } from "./pipeline/run-pipeline.ts";
import { TaskQueue } from "./pipeline/task-queue.ts";
import { checkpointStore, MainThread, noteStore } from "./runtime/main-thread.ts";
import type { FromReplicationWorker, ToReplicationWorker } from "./runtime/messages.ts";
import { offeredTask, wireError, workerReporter } from "./runtime/worker-reporter.ts";
import { createSink } from "./sink/registry.ts";
import { createSource } from "./source/registry.ts";
import { SourceNotes } from "./source/source-notes.ts";

declare const self: Worker;

/** How long the batch in hand may take once the run is told to stop. */
const stopGraceMs = 5_000;

const main = new MainThread<FromReplicationWorker>((message) => self.postMessage(message));
const tasks = new TaskQueue();
const stop = new AbortController();
const abort = new AbortController();

const checkpoints = checkpointStore(main);

async function run(
  start: Extract<ToReplicationWorker, { type: "start" }>,
  notes: SourceNotes,
): Promise<void> {
  let forms: readonly TupleForm[] = ["binary", "text"];
  let { initialized } = start;
  const reporter = workerReporter(main, slotName(start.connector.id));
  while (true) {
    try {
      await attempt(start, initialized, forms, notes, {
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

async function attempt(
  { connector, work, owner, isAfterRefusal, webhook }: Extract<ToReplicationWorker, { type: "start" }>,
  initialized: boolean,
  forms: readonly TupleForm[],
  notes: SourceNotes,
  reporter: ReturnType<typeof workerReporter>,
): Promise<void> {
  const source = connector.source.postgres;
  const skipSnapshots = source?.replication_type.logical_replication?.skip_snapshots ?? false;
  await runPipeline({
    work,
    initialized,
    forms,
    skipSnapshots,
    parallelCopies: parallelCopies(connector),
    areConnectionsBounded: areConnectionsBounded(connector),
    makeSource: (events) =>
      createSource(connector, {
        signal: abort.signal,
        owner,
        notes,
        events,
        sinkFollowsShapes: connector.sink.postgres !== undefined,
        isBegun: initialized,
      }),
    makeSink: (events) =>
      createSink(
        connector,
        {
          connectorId: connector.id,
          owner,
          signal: abort.signal,
          checkpoints,
          makesCopies: !skipSnapshots,
          isAfterRefusal,
          events,
        },
        webhook,
      ),
    reporter,
    tasks,
    stop: stop.signal,
    abort: abort.signal,
  });
}

async function live(start: Extract<ToReplicationWorker, { type: "start" }>): Promise<void> {
  try {
    const notes = await SourceNotes.load(noteStore(main));
    await run(start, notes).finally(() => notes.saved());
    main.tell({ type: "ended", error: null });
  } catch (error) {
    main.tell({ type: "ended", error: stop.signal.aborted ? null : wireError(error) });
  }
  process.exit(0);
}

function beginStop(): void {
  if (stop.signal.aborted) return;
  stop.abort();
  setTimeout(() => abort.abort(new MillraceError("internal", "The run was stopped.")), stopGraceMs);
}

self.onmessage = ({ data: message }: MessageEvent<ToReplicationWorker>) => {
  switch (message.type) {
    case "start":
      void live(message);
      break;
    case "stop":
      beginStop();
      break;
    case "task.offer":
      tasks.offer(message.taskId, offeredTask(main, message));
      break;
    case "reply":
      main.settle(message);
      break;
    default:
      message satisfies never;
  }
};

threadPulse(
  (loopDelayMs) => main.tell({ type: "pulse", loopDelayMs }),
  () => performance.now(),
);
main.tell({ type: "ready" });
