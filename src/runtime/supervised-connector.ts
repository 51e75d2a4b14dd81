// Reconciles one connector with its stored record: running under the stored run id, stopped, initialized again, or
// deleted. It is level-triggered: it reads the record, acts, and reads the record again if `reconcile` was called
// meanwhile.

import { copiesInRounds } from "../connector/config/copies-in-rounds.ts";
import type { ConnectorConfig } from "../connector/connector.ts";
import type { Task } from "../connector/task.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import type { Log } from "../log.ts";
import { recordOfObjects } from "../source/source-state.ts";
import { noRound, type StoredConnector } from "../state/stores/connector-store.ts";
import type { RecordStore } from "../state/stores/record-store.ts";
import { type CleanupContext, ConnectorCleanup, configsOf } from "./connector-cleanup.ts";
import { deliveryKind, type RunAttempt, type RunEvents } from "./run/connector-run.ts";
import { haveSameSource, leavesCheckpoint } from "./run/fresh-start.ts";
import { RunLoop } from "./run/run-loop.ts";
import { SnapshotRounds } from "./run/snapshot-rounds.ts";
import type { StatusBoard } from "./status/status-board.ts";
import { TaskDispatcher } from "./task-dispatcher.ts";
import type { RecordOwner, RunRequest } from "./threads/messages.ts";
import type { ThreadWatch } from "./threads/thread-watch.ts";

export interface SupervisionContext extends CleanupContext {
  readonly board: StatusBoard;
  readonly threads: ThreadWatch;
  startRun(request: RunRequest, events: RunEvents): RunAttempt;
  /** A task of the connector has failed for good; left out: nobody wants to know. */
  taskFailed?(connectorId: string, task: Task): void;
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** How long one attempt to drop the source objects may take. */
const dropMs = 15_000;
const forcedDropMs = 4_000;
/** Between attempts to clean up at a source, and to read a state store that does not answer. */
const retryMs = 3_000;

export class SupervisedConnector {
  readonly tasks: TaskDispatcher;
  readonly #log: Log;
  #loop: RunLoop | null = null;
  #reconciling: Promise<void> | null = null;
  #isStale = false;
  /** Aborted by `reconcile`: what is being waited for may no longer be wanted. */
  #interrupt = new AbortController();
  #retryTimer: Timer | undefined;
  #closed = false;
  readonly #cleanup: ConnectorCleanup;
  /** How often a deletion has found its source away. */
  #failedDeletions = 0;

  constructor(
    private readonly id: string,
    private readonly context: SupervisionContext,
    private readonly onGone: () => void,
  ) {
    this.#log = context.log.child({ connector: id });
    this.#cleanup = new ConnectorCleanup({ ...context, log: this.#log });
    this.tasks = new TaskDispatcher(id, {
      ...{ ...context, store: context.state.tasks, log: this.#log },
      onTaskWaiting: () => this.#loop?.taskDue(),
      onTaskFailed: (task) => context.taskFailed?.(id, task),
    });
  }

  /** Call it when the record may have changed. Returns at once. */
  reconcile(): void {
    if (this.#closed) return;
    this.#isStale = true;
    this.#interrupt.abort();
    clearTimeout(this.#retryTimer);
    this.#reconciling ??= this.#reconcileUntilCurrent();
  }

  /** Whether the run with this id has ended by itself: complete, or failed permanently. */
  isOver(runId: string): boolean {
    return this.#loop?.runId === runId && this.#loop.isOver;
  }

  /** Resolves when the record is in effect, or has to wait for a source. */
  async settled(): Promise<void> {
    await this.#reconciling;
  }

  /** Stops the run when the service ends. The record stays as it is. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#interrupt.abort();
    clearTimeout(this.#retryTimer);
    this.#loop?.stop();
    await this.#reconciling;
    await this.#stopRun();
    await this.tasks.close();
  }

  async #reconcileUntilCurrent(): Promise<void> {
    while (this.#isStale && !this.#closed) {
      this.#isStale = false;
      this.#interrupt = new AbortController();
      try {
        await this.#apply(await this.context.state.connectors.find(this.id));
      } catch (error) {
        this.#log.error({ error }, "the connector could not be brought to its state");
        this.#reconcileLater();
      }
    }
    this.#reconciling = null;
  }

  async #apply(stored: StoredConnector | null): Promise<void> {
    const mayRun =
      stored && !stored.deletion && !stored.stopped && !stored.config.disabled && !stored.cleanup;
    if (this.#loop && !(mayRun && this.#loop.runId === stored.runId)) await this.#stopRun();
    if (!stored) return this.#forget();
    if (stored.deletion) return this.#delete(stored, stored.deletion);
    if (stored.cleanup) return this.#reinitialize(stored, stored.cleanup);
    if (stored.config.disabled) return this.#reportIdle(stored, { disabled: {} });
    if (stored.stopped) return this.#reportIdle(stored, { shutdown: {} });
    if (!this.#loop) this.#startRun(stored);
  }

  #reportIdle({ runId }: StoredConnector, state: { disabled: object } | { shutdown: object }): void {
    this.context.board.report(this.id, runId, "Connector", { state, status: { complete: {} } });
  }

  #startRun(stored: StoredConnector): void {
    const { board, ...context } = this.context;
    const { runId } = stored;
    board.begin(this.id, runId);
    this.#loop = new RunLoop(stored, {
      ...context,
      startRun: (request, events) => this.context.startRun(request, events),
      events: this.#events(runId),
      rounds: this.#roundsOf(stored),
      idle: (nextAt, failed) => {
        const state = nextAt ? { scheduled: {} } : { complete: {} };
        // First, so that whoever hears of the status finds the time in it.
        board.nextSnapshot(this.id, runId, nextAt);
        board.report(this.id, runId, "Connector", { state, status: failed ? { failed } : { complete: {} } });
      },
      attemptChanged: (run, error) => this.#attemptChanged(stored, run, error),
      failed: (error, health) => {
        // An internal error is a fault that somebody has to find, so it is logged in full; other errors explain
        // themselves.
        if (error.code === "internal") this.#log.error({ run: runId, error }, "a fault in the run");
        board.failed(this.id, stored.runId, error);
        board.reportHealth(this.id, stored.runId, "Connector", health);
      },
    });
    // Tasks may have been created while nothing ran, and a run that waits for its next round makes no attempt that asks
    // for them.
    this.tasks.dispatch();
  }

  #attemptChanged({ config }: StoredConnector, run: RunAttempt | null, error: MillraceError | null): void {
    const { board, threads } = this.context;
    if (run) {
      board.attempted(this.id);
      const kind = deliveryKind(config.sink);
      threads.began(this.id, kind ? ["replication", kind] : ["replication"]);
      this.tasks.attach(run);
    } else {
      threads.ended(this.id);
      board.attemptEnded(this.id);
      this.tasks.detach(error);
    }
  }

  #roundsOf(stored: StoredConnector): SnapshotRounds | null {
    if (!copiesInRounds(stored.config)) return null;
    const { connectors } = this.context.state;
    const records = {
      begin: (at: Date) => connectors.beginRound(stored.id, stored.runId, at),
      end: (at: Date) => connectors.endRound(stored.id, stored.runId, at),
    };
    return new SnapshotRounds(stored, records, this.context.nowMs);
  }

  async #stopRun(): Promise<void> {
    const loop = this.#loop;
    if (!loop) return;
    loop.stop();
    await loop.ended;
    this.#loop = null;
  }

  #events(runId: string): RunEvents {
    const { board, state, threads } = this.context;
    const log = this.#log.child({ run: runId });
    return {
      status: (component, status) => board.report(this.id, runId, component, status),
      initialized: () => state.connectors.markInitialized(this.id, runId),
      metrics: (metrics) => board.measured(this.id, runId, metrics),
      pulse: (thread, loopDelayMs) => threads.pulse(this.id, thread, loopDelayMs),
      setAside: (tables) => board.setAside(this.id, runId, tables),
      tables: (report) => board.tables.reported(this.id, runId, report),
      claimTask: (taskId) => this.tasks.claim(taskId),
      taskProgress: (taskId, progress) => this.tasks.progress(taskId, progress),
      taskEnded: (taskId, error) => this.tasks.ended(taskId, error),
      loadRecord: (owner) => this.#records(owner).load(this.id),
      saveRecord: (owner, text, parts) => this.#records(owner).save(this.id, text, parts),
      log: ({ level, message, fields }) => log[level](fields, message),
    };
  }

  #records(owner: RecordOwner): RecordStore {
    const { sourceRecords, sinkRecords } = this.context.state;
    return owner === "source" ? sourceRecords : sinkRecords;
  }

  /** Removes the connector's progress and its objects at the source. The next pass starts its run. */
  async #reinitialize(stored: StoredConnector, cleanup: ConnectorConfig): Promise<void> {
    // The next run creates slot and publications again in any case, so an unreachable source does not block this.
    const { signal } = this.#interrupt;
    const isDropped =
      !(await this.#cleanup.mayFindObjects(stored)) || (await this.#cleanup.drop(cleanup, dropMs, signal));
    if (!isDropped && signal.aborted) return;
    // What is left behind is for a deletion to find.
    if (isDropped || !haveSameSource(cleanup, stored.config)) await this.#records("source").remove(stored.id);
    else await this.#records("source").save(stored.id, recordOfObjects);
    await this.#records("sink").remove(stored.id);
    if (leavesCheckpoint(cleanup, stored.config))
      await this.#cleanup.dropAtSink(cleanup, forcedDropMs, signal);
    await this.context.state.connectors.update(stored.id, { initialized: false, ...noRound, cleanup: null });
    this.#cleanup.failure = null;
    this.#isStale = true;
  }

  async #delete(stored: StoredConnector, deletion: "wait" | "force"): Promise<void> {
    if (this.#cleanup.failure === null) this.#reportIdle(stored, { shutdown: {} });
    const boundMs = deletion === "force" ? forcedDropMs : dropMs;
    const { signal } = this.#interrupt;
    const hasObjects = await this.#cleanup.mayFindObjects(stored);
    // Also what is left at an earlier source: nobody else would clean it up.
    const configs = hasObjects ? configsOf(stored) : [];
    const dropped = await Promise.all(configs.map((config) => this.#cleanup.drop(config, boundMs, signal)));
    if (dropped.includes(false)) {
      // Another command came, or the service is ending: the next pass, or the next start, continues.
      if (signal.aborted) return;
      if (deletion === "wait") return this.#retryDeletion(stored);
    }
    if (hasObjects || stored.initialized || stored.roundBegunAt !== null)
      for (const config of configsOf(stored)) await this.#cleanup.dropAtSink(config, forcedDropMs, signal);
    await this.context.state.connectors.remove(stored.id);
    this.#log.info("connector deleted");
    this.#forget();
  }

  /** The connector is stopped but not deleted yet: the status says what the deletion waits for. */
  #retryDeletion({ runId }: StoredConnector): void {
    const { board } = this.context;
    const { code, message } = this.#cleanup.failure ?? new MillraceError("internal", "It is not known why.");
    const reason = `The deletion waits for the source: ${message} ForceDelete does not wait.`;
    const retry = { attempt: ++this.#failedDeletions, reason };
    board.failed(this.id, runId, new MillraceError(code, reason));
    board.report(this.id, runId, "Connector", { state: { shutdown: {} }, status: { retry } });
    this.#reconcileLater();
  }

  #reconcileLater(): void {
    if (!this.#closed) this.#retryTimer = setTimeout(() => this.reconcile(), retryMs);
  }

  #forget(): void {
    this.context.board.forget(this.id);
    // If another connector was stored under this id meanwhile, there is more to do.
    if (!this.#isStale) this.onGone();
  }
}
