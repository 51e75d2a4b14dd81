// A separate process that runs a pipeline from the benchmark's source into a sink that discards everything. It receives
// commands from its parent and reports progress, both as messages.

import type { Checkpoint } from "../../src/change/checkpoint.ts";
import { completeSource } from "../../src/connector/request/complete-connector.ts";
import { runPipeline } from "../../src/pipeline/run-pipeline.ts";
import type { Sink } from "../../src/sink/sink.ts";
import type { SinkEvents } from "../../src/sink/sink-events.ts";
import { PostgresSource } from "../../src/source/postgres/postgres-source.ts";
import { dropPostgresObjects } from "../../src/source/postgres/source-objects.ts";
import { SourceState } from "../../src/source/source-state.ts";

export type DiscardingCommand = "start" | "stop" | "drop";
export type DiscardingReport = "streams" | "markerArrived" | "stopped" | "dropped";

const slot = "millrace_discard";
const connection = JSON.parse(process.argv[2] ?? "{}");
const { postgres: config } = completeSource({
  postgres: { connection, replication_type: { logical_replication: { skip_snapshots: true } } },
});
if (!config) throw new Error("no source");

const state = await SourceState.load({ load: async () => null, save: async () => {} });
const abort = new AbortController();
let stop = new AbortController();
let checkpoint: Checkpoint | null = null;

process.on("message", (command: DiscardingCommand) => void handle(command));

async function handle(command: DiscardingCommand): Promise<void> {
  switch (command) {
    case "start":
      stop = new AbortController();
      await run(stop.signal);
      report("stopped");
      break;
    case "stop":
      stop.abort();
      break;
    case "drop":
      if (config) await dropPostgresObjects(config, slot, AbortSignal.timeout(20_000));
      report("dropped");
      break;
    default:
      command satisfies never;
  }
}

async function run(signal: AbortSignal): Promise<void> {
  if (!config) return;
  await runPipeline({
    work: "changes",
    initialized: checkpoint !== null,
    skipSnapshots: true,
    parallelCopies: 1,
    forms: ["binary", "text"],
    makeSource: (events) =>
      new PostgresSource(config, slot, 0, {
        signal: abort.signal,
        state,
        events,
        sinkFollowsShapes: true,
      }),
    makeSink: discardingSink,
    reporter: {
      phase: ({ name }) => {
        if (name === "realtime") report("streams");
      },
      initialized: async () => {},
      progress: () => {},
      setAside: () => {},
      tables: () => {},
    },
    tasks: { take: () => null, putBack: () => {}, onArrival: () => {} },
    stop: signal,
    abort: abort.signal,
  });
}

function discardingSink(events: SinkEvents): Sink {
  return {
    open: async () => checkpoint,
    begin: async (first) => {
      checkpoint = first;
    },
    goOnIn: async () => {},
    forget: async () => {},
    prepare: async () => ({ form: "binary", missing: [], behind: [], takesInProgress: true }),
    copies: {
      begin: () => Promise.reject(new Error("nothing is to be copied")),
      rowsForm: () => "binary",
      takeRows: async () => {},
    },
    write: async (batch) => {
      if (batch.endsInTransaction || checkpoint === null) return;
      checkpoint = { ...checkpoint, resumeLsn: batch.resumeLsn };
      events.durable(checkpoint, batch.count, 0);
      if (batch.relations.some(({ name }) => name === "bench_marker")) report("markerArrived");
    },
    flush: async () => {},
    [Symbol.asyncDispose]: async () => {},
  };
}

function report(message: DiscardingReport): void {
  process.send?.(message);
}
