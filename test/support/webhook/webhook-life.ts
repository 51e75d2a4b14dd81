// A pipeline from a real server to a webhook sink, with the real worker, run in the test's own thread.

import { expect } from "bun:test";
import type { CopyPart } from "../../../src/change/copy-part.ts";
import type { Lsn } from "../../../src/change/lsn.ts";
import { untilAborted } from "../../../src/concurrency/until-aborted.ts";
import type { PostgresSourceConfig } from "../../../src/connector/config/source-config.ts";
import type { ConnectorConfig } from "../../../src/connector/connector.ts";
import type { ReplaySpec, TaskResult } from "../../../src/connector/task.ts";
import type { ConnectionSettings } from "../../../src/demo/postgres-server.ts";
import { type CopyPace, webhookCopyPace } from "../../../src/pipeline/copy/copy-pace.ts";
import { runPipeline } from "../../../src/pipeline/run-pipeline.ts";
import { TaskQueue } from "../../../src/pipeline/tasks/task-queue.ts";
import type { SetAsideTable } from "../../../src/sink/sink-events.ts";
import { PostgresSource } from "../../../src/source/postgres/postgres-source.ts";
import { streamPace } from "../../../src/source/postgres/stream/feedback.ts";
import { postgresSource } from "../api/connector-config.ts";
import { emptySourceState } from "../pipeline/source-state.ts";
import { type RecordStore, WebhookRig } from "./webhook-rig.ts";

/** One life of worker and pipeline over `store`. */
export class WebhookLife {
  readonly #stop = new AbortController();
  readonly #abort = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  phase = "";
  /** What ended the run, if it failed. */
  failure: unknown = null;
  /** What is read of tables waits for it. */
  copiesHeld: Promise<void> = Promise.resolve();
  beforePoint: () => Promise<void> = async () => {};
  readonly #tasks = new TaskQueue();
  #taskCount = 0;
  /** Each copy that was read, of a table or of a part of it. */
  readonly copies: { readonly table: string; readonly part: CopyPart | null; readonly lsn: Lsn }[] = [];
  /** As the run told last; null: it has not. */
  setAside: readonly SetAsideTable[] | null = null;

  private constructor(private readonly rig: WebhookRig) {}

  static async start(
    source: ConnectionSettings,
    connector: ConnectorConfig,
    store: RecordStore,
    begun: { yes: boolean },
    change: Partial<PostgresSourceConfig> = {},
    copyPace: CopyPace = webhookCopyPace,
  ): Promise<WebhookLife> {
    const life = new WebhookLife(await WebhookRig.start(connector, store));
    const { signal } = life.#abort;
    const config = postgresSource(source, change);
    const state = await emptySourceState();
    life.#running = runPipeline({
      work: "changes",
      initialized: begun.yes,
      skipSnapshots: false,
      parallelCopies: 2,
      copyPace,
      retryPace: { againMs: 100, mostMs: 400, changedAgainMs: 50 },
      forms: ["binary", "text"],
      makeSource: (events) =>
        life.#watched(
          new PostgresSource(
            config,
            `millrace_${source.database}`,
            0,
            { signal, state, events, sinkFollowsShapes: false },
            { ...streamPace, tableCheckMs: 200 },
          ),
        ),
      makeSink: (events) => life.rig.sink(events),
      reporter: {
        phase: (phase) => {
          life.phase = phase.name;
        },
        initialized: async () => {
          begun.yes = true;
        },
        progress: () => {},
        setAside: (tables) => {
          life.setAside = tables;
        },
        tables: () => {},
      },
      tasks: life.#tasks,
      stop: life.#stop.signal,
      abort: signal,
    }).catch((error: unknown) => {
      life.failure = error;
      return error;
    });
    return life;
  }

  #watched(source: PostgresSource): PostgresSource {
    const snapshotPoint = source.snapshotPoint.bind(source);
    source.snapshotPoint = async (signal) => {
      await this.beforePoint();
      return await snapshotPoint(signal);
    };
    const readTable = source.readTable.bind(source);
    source.readTable = (table, point, form, part) => {
      this.copies.push({ table: table.relation.name, part: part ?? null, lsn: point.lsn });
      const copy = readTable(table, point, form, part);
      return { ...copy, chunks: this.#held(copy.chunks) };
    };
    return source;
  }

  async *#held(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      await untilAborted(this.copiesHeld, this.#abort.signal);
      yield chunk;
    }
  }

  /** A snapshot task's outcome: null, or why it failed. */
  async snapshot(database: string, table: string): Promise<unknown> {
    return await new Promise((resolve) => {
      this.#tasks.offer(`task-${++this.#taskCount}`, {
        spec: {
          Snapshot: { database, schema: "public", name: table, truncate: false, force_parallel: false },
        },
        claim: async () => true,
        progress: () => {},
        done: () => resolve(null),
        failed: resolve,
      });
    });
  }

  /** What a replay has sent. Rejects with why it failed. `id`: the same for each attempt of one task. */
  async replay(spec: ReplaySpec, id = `task-${++this.#taskCount}`): Promise<TaskResult | undefined> {
    return await new Promise((done, failed) => {
      this.#tasks.offer(id, {
        spec: { Replay: spec },
        claim: async () => true,
        progress: () => {},
        done,
        failed,
      });
    });
  }

  /** What ended the run by itself. */
  async ended(): Promise<unknown> {
    const error = await this.#running;
    await this.rig[Symbol.asyncDispose]();
    return error;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    expect(await this.#running).toBeUndefined();
    await this.rig[Symbol.asyncDispose]();
  }

  /** As the grace of a stop ends: what is on its way is broken off, and the worker, which is not the run's, goes on for a while. */
  async breakOff(): Promise<void> {
    const reason = new Error("The run was stopped.");
    this.#stop.abort();
    this.rig.abort(reason);
    this.#abort.abort(reason);
    await this.#running;
    await Bun.sleep(1_000);
    await this.rig[Symbol.asyncDispose]();
  }

  /** As SIGKILL would: the worker at once, then the pipeline's connections. */
  async kill(): Promise<void> {
    await this.rig.kill();
    this.#abort.abort(new Error("killed"));
    await this.#running;
  }
}
