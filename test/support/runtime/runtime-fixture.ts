// A runtime over a real state in a temporary data directory, with scripted workers in place of replication, or real ones.

import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ConnectorConfig } from "../../../src/connector/connector.ts";
import { createLog } from "../../../src/log.ts";
import { StoredConnectorService } from "../../../src/runtime/connector-service.ts";
import { PrometheusMetricsService } from "../../../src/runtime/metrics/metrics-service.ts";
import { ConnectorRun, workerThreads } from "../../../src/runtime/run/connector-run.ts";
import { LiveHealthService } from "../../../src/runtime/status/health-service.ts";
import { SlotWatch, slotPace } from "../../../src/runtime/status/slot-watch.ts";
import { StatusBoard } from "../../../src/runtime/status/status-board.ts";
import { LocalStatuses } from "../../../src/runtime/status/statuses.ts";
import { Supervisor } from "../../../src/runtime/supervisor.ts";
import { StoredTaskService } from "../../../src/runtime/task-service.ts";
import { ThreadWatch } from "../../../src/runtime/threads/thread-watch.ts";
import { readSourceLog } from "../../../src/source/registry.ts";
import type { KeptLog } from "../../../src/source/source.ts";
import { openState, type State } from "../../../src/state/open-state.ts";

const scriptedWorker = new URL("./scripted.worker.ts", import.meta.url);

export class RuntimeFixture implements AsyncDisposable {
  readonly lines: string[] = [];
  /** The connectors whose objects were dropped, in order; a source that is away fails instead. */
  readonly dropped: string[] = [];
  /** The hosts where they were dropped. */
  readonly droppedAt: string[] = [];
  isSourceAway = false;
  /** Connectors that another replica holds. */
  readonly heldElsewhere = new Set<string>();
  /** Connectors that no replica holds. */
  readonly leftAlone = new Set<string>();
  /** Why the service is not ready; null: it is. */
  unready: string | null = null;
  /** How long a source takes to drop what was made there. */
  dropTakesMs = 0;
  /** What a source keeps of its log; with real workers, what a real one does. */
  keptLog: (connector: ConnectorConfig, signal: AbortSignal) => Promise<KeptLog | null>;
  runs = 0;
  /** Of each kind; counts from the next start on. */
  mostThreads = 8;

  state!: State;
  board!: StatusBoard;
  threads!: ThreadWatch;
  supervisor!: Supervisor;
  statuses!: LocalStatuses;
  connectors!: StoredConnectorService;
  tasks!: StoredTaskService;
  slots!: SlotWatch;
  metrics!: PrometheusMetricsService;
  readonly log = createLog({ level: "debug", readable: false, write: (line) => this.lines.push(line) });

  private constructor(
    readonly directory: string,
    private readonly workers: "scripted" | "real",
    private readonly pace: typeof slotPace,
  ) {
    this.keptLog = workers === "real" ? readSourceLog : async () => null;
  }

  /** `pace`: how often slots are asked for. */
  static async open(workers: "scripted" | "real" = "scripted", pace = slotPace): Promise<RuntimeFixture> {
    const fixture = new RuntimeFixture(await mkdtemp(join(tmpdir(), "millrace-test-")), workers, pace);
    await fixture.#start();
    return fixture;
  }

  /** Ends the service and starts it again on the same state. */
  async restart(): Promise<void> {
    await this.#close();
    await this.#start();
  }

  /** Ends the service, and begins another on the same state, in which nothing runs yet. */
  async beginAnew(): Promise<void> {
    await this.#close();
    await this.#open();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
    await rm(this.directory, { recursive: true, force: true });
  }

  async #start(): Promise<void> {
    await this.#open();
    await this.supervisor.start();
  }

  async #open(): Promise<void> {
    const dataDirectory = join(this.directory, "data");
    this.state = await openState({
      databaseUrl: null,
      dataDirectory,
      encryptionKey: null,
      instance: crypto.randomUUID(),
    });
    this.#wire();
  }

  async #close(): Promise<void> {
    await this.slots[Symbol.asyncDispose]();
    await this.supervisor[Symbol.asyncDispose]();
    this.threads[Symbol.dispose]();
    await this.state[Symbol.asyncDispose]();
  }

  #wire(): void {
    const { state, log } = this;
    const now = () => new Date();
    this.board = new StatusBoard(state.history, log, now);
    this.threads = new ThreadWatch();
    const scripted = { replication: scriptedWorker, delivery: scriptedWorker };
    const workers = workerThreads(this.mostThreads, this.workers === "real" ? undefined : scripted);
    this.supervisor = new Supervisor({
      state,
      board: this.board,
      threads: this.threads,
      log,
      startRun: (request, events) => {
        this.runs += 1;
        return new ConnectorRun(request, events, workers, this.workers === "real" ? undefined : 300);
      },
      dropSourceObjects: (connector, signal) => this.#drop(connector, signal),
      dropSinkObjects: async () => {},
      beginsAgain: (id) => this.metrics.forgetVerified(id),
      mayRun: () => true,
      nowMs: Date.now,
      monotonicMs: () => performance.now(),
      random: () => 0,
      sleep: (ms, signal) =>
        new Promise((resolve) => {
          const timer = setTimeout(resolve, Math.min(ms, 50));
          signal.addEventListener("abort", () => {
            clearTimeout(timer);
            resolve();
          });
        }),
    });
    this.slots = new SlotWatch(state, this.board, (...asked) => this.keptLog(...asked), this.pace);
    const newRunId = () => Bun.randomUUIDv7();
    this.statuses = new LocalStatuses(this.board, this.supervisor);
    const { board, statuses, threads, supervisor } = this;
    const parts = { state, board, statuses, threads, supervisor, now };
    this.connectors = new StoredConnectorService({ ...parts, randomBytes, newRunId });
    this.tasks = new StoredTaskService({ ...parts, newTaskId: newRunId });
    this.metrics = new PrometheusMetricsService({
      ...parts,
      version: "1.2.3",
      replicaId: "replica-1",
      holds: (id) => !this.heldElsewhere.has(id),
      health: new LiveHealthService(state, threads, () => this.unready),
      leftAlone: () => this.leftAlone,
      slotOf: (id) => this.slots.slotOf(id),
      countTasks: () => state.tasks.countByState(null),
      countParked: () => state.parked.totals(null),
      countReceipts: () => state.receipts.totals(null),
    });
    this.board.addWatch(this.metrics);
  }

  async #drop({ id, source }: ConnectorConfig, signal: AbortSignal): Promise<void> {
    if (this.isSourceAway) throw new Error("nothing answers");
    await Bun.sleep(this.dropTakesMs);
    signal.throwIfAborted();
    this.dropped.push(id);
    this.droppedAt.push(source.postgres?.connection.host ?? "");
  }
}
