// Reconciles one connector with its stored record: running under the stored run id, stopped, initialized again, or
// deleted. It is level-triggered: it reads the record, acts, and reads the record again if `reconcile` was called
// meanwhile. It does so for as long as this replica holds the connector.

import type { ConnectorConfig } from "../connector/connector.ts";
import type { OpenRequest, RowQuestion } from "../connector/receipts.ts";
import type { Task } from "../connector/task.ts";
import type { Term } from "../connector/term.ts";
import type { VerifyResult } from "../connector/verification.ts";
import { MillraceError } from "../errors/millrace-error.ts";
import type { Log } from "../log.ts";
import { forgotten } from "../sink/delivery/record/sink-record.ts";
import type { DroppedBy } from "../source/source.ts";
import { recordOfObjects } from "../source/source-state.ts";
import type { StoredConnector } from "../state/stores/connector-store.ts";
import { type CleanupContext, ConnectorCleanup, configsOf, mayFindObjects } from "./connector-cleanup.ts";
import { haveSameSource, leavesCheckpoint } from "./run/fresh-start.ts";
import { ownerOf, type RunLoop } from "./run/run-loop.ts";
import { type RunContext, superviseRun } from "./supervised-run.ts";
import { TaskDispatcher } from "./task-dispatcher.ts";

export interface SupervisionContext extends CleanupContext, RunContext {
  /** A verification has ended; left out: nobody wants to know. */
  verified?(connectorId: string, task: Task, result: VerifyResult): void;
  /** What was found of its rows is of others from here on; left out: nobody wants to know. */
  beginsAgain?(connectorId: string): void;
  /** A task of the connector has failed for good; left out: nobody wants to know. */
  taskFailed?(connectorId: string, task: Task): void;
  /** Whether somebody wants the connector to run; left out: nobody wants to know. */
  activityChanged?(connectorId: string, term: Term, isActive: boolean): void;
}

/** A connector that this replica holds. */
export interface Holding {
  readonly id: string;
  readonly term: Term;
  /** Whether, for now, deletions go on and nothing else. */
  readonly deletesOnly: () => boolean;
  /** Makes the tasks pending that somebody ran before, who is gone. */
  readonly releaseTasks: () => Promise<void>;
  /** The connector is gone from the state. */
  readonly onGone: () => void;
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
  #hasBegun = false;
  /** Aborted by `reconcile`: what is being waited for may no longer be wanted. */
  #interrupt = new AbortController();
  #retryTimer: Timer | undefined;
  #closed = false;
  /** As it was told last; null: not yet. */
  #isActive: boolean | null = null;
  readonly #cleanup: ConnectorCleanup;
  /** How often a deletion has found its source away. */
  #failedDeletions = 0;

  constructor(
    private readonly holding: Holding,
    private readonly context: SupervisionContext,
  ) {
    const { id, term } = holding;
    this.#log = context.log.child({ connector: id });
    this.#cleanup = new ConnectorCleanup({ ...context, log: this.#log });
    this.tasks = new TaskDispatcher(id, {
      ...context,
      term,
      store: context.state.tasks,
      log: this.#log,
      onTaskWaiting: () => this.#loop?.taskDue(),
      onVerified: (task, result) => context.verified?.(id, task, result),
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

  /** Requests of its run that have the row and are not delivered; null: nobody can tell. */
  async findRow(question: RowQuestion): Promise<readonly OpenRequest[] | null> {
    return (await this.#loop?.findRow(question)) ?? null;
  }

  /** Resolves when the record is in effect, or has to wait for a source. */
  async settled(): Promise<void> {
    await this.#reconciling;
  }

  /**
   * Ends what goes on, and the record stays as it is. `stop`: what is in flight may be finished. `cut`: another replica may hold
   * the connector by now, so nothing is waited for. Resolves when nothing goes on.
   */
  async close(how: "stop" | "cut"): Promise<void> {
    this.#closed = true;
    this.#interrupt.abort();
    clearTimeout(this.#retryTimer);
    this.#loop?.[how]();
    await this.#reconciling;
    await this.#stopRun();
    await this.tasks.close();
  }

  /** While `close` stops it in order. */
  cut(): void {
    this.#loop?.cut();
  }

  async #reconcileUntilCurrent(): Promise<void> {
    while (this.#isStale && !this.#closed) {
      this.#isStale = false;
      this.#interrupt = new AbortController();
      try {
        await this.#begin();
        await this.#apply(await this.context.state.connectors.find(this.holding.id));
      } catch (error) {
        this.#log.error({ error }, "the connector could not be brought to its state");
        this.#reconcileLater();
      }
    }
    this.#reconciling = null;
  }

  async #begin(): Promise<void> {
    if (this.#hasBegun) return;
    await this.holding.releaseTasks();
    this.#hasBegun = true;
  }

  async #apply(stored: StoredConnector | null): Promise<void> {
    const isWanted = stored !== null && !stored.deletion && !stored.stopped && !stored.config.disabled;
    const mayRun = isWanted && !stored.cleanup;
    if (this.#loop && !(mayRun && this.#loop.runId === stored.runId)) await this.#stopRun();
    if (!stored) return this.#forget();
    this.#tellActivity(isWanted);
    if (stored.deletion) return this.#delete(stored, stored.deletion);
    if (this.holding.deletesOnly()) return;
    if (stored.cleanup) return this.#reinitialize(stored, stored.cleanup);
    if (stored.config.disabled) return this.#reportIdle(stored, { disabled: {} });
    if (stored.stopped) return this.#reportIdle(stored, { shutdown: {} });
    if (!this.#loop) this.#startRun(stored);
  }

  #startRun(stored: StoredConnector): void {
    this.#loop = superviseRun(stored, this.holding.term, this.tasks, { ...this.context, log: this.#log });
    // Tasks may have been created while nothing ran, and a run that waits for its next round makes no attempt that asks
    // for them.
    this.tasks.dispatch();
  }

  #tellActivity(isActive: boolean): void {
    if (this.#isActive === isActive) return;
    this.#isActive = isActive;
    this.context.activityChanged?.(this.holding.id, this.holding.term, isActive);
  }

  #reportIdle({ id, runId }: StoredConnector, state: { disabled: object } | { shutdown: object }): void {
    const { board } = this.context;
    // Another replica may have stored the run; else who stored it has begun it.
    const known = board.runId(id);
    if (known !== null && known !== runId) board.begin(id, runId);
    // What its slot keeps is warned of meanwhile.
    const { state: before, status } = board.status(id);
    if (known === runId && status.warning && Bun.deepEquals(before, state)) return;
    board.report(id, runId, "Connector", { state, status: { complete: {} } });
  }

  async #stopRun(): Promise<void> {
    const loop = this.#loop;
    if (!loop) return;
    loop.stop();
    await loop.ended;
    this.#loop = null;
  }

  /** Removes the connector's progress and its objects at the source. The next pass starts its run. */
  async #reinitialize(stored: StoredConnector, cleanup: ConnectorConfig): Promise<void> {
    // The next run creates slot and publications again in any case, so an unreachable source does not block this.
    const { signal } = this.#interrupt;
    const { connectors, sourceRecords, parking, receipts, tasks } = this.context.state;
    const { id, term } = this.holding;
    const isDropped =
      !(await mayFindObjects(this.context.state, stored)) ||
      (await this.#cleanup.drop(cleanup, dropMs, signal, this.#by(stored)));
    if (!isDropped && signal.aborted) return;
    // What is left behind is for a deletion to find.
    if (isDropped || !haveSameSource(cleanup, stored.config)) await sourceRecords.remove(id, term);
    else await sourceRecords.save(id, recordOfObjects, new Map(), term);
    // Everything is sent again, with versions above those of what is parked.
    await parking.remove(id, term);
    // They tell of a log, and of rows, that the connector begins anew with.
    await receipts.remove(id, term);
    await tasks.forgetVerified(id, term);
    this.context.beginsAgain?.(id);
    await this.#forgetSinkRecord();
    if (leavesCheckpoint(cleanup, stored.config))
      await this.#cleanup.dropAtSink(cleanup, forcedDropMs, signal);
    await connectors.finishCleanup(id, term);
    this.#cleanup.failure = null;
    this.#isStale = true;
  }

  /** The source's clock may stand below versions that were sent, so the last one stays. */
  async #forgetSinkRecord(): Promise<void> {
    const { sinkRecords } = this.context.state;
    const { id, term } = this.holding;
    const saved = await sinkRecords.load(id);
    const left = saved && forgotten(saved);
    if (left) await sinkRecords.save(id, left.text, left.parts, term);
    else await sinkRecords.remove(id, term);
  }

  async #delete(stored: StoredConnector, deletion: "wait" | "force"): Promise<void> {
    if (this.#cleanup.failure === null) this.#reportIdle(stored, { shutdown: {} });
    const boundMs = deletion === "force" ? forcedDropMs : dropMs;
    const { signal } = this.#interrupt;
    const hasObjects = await mayFindObjects(this.context.state, stored);
    // Also what is left at an earlier source: nobody else would clean it up.
    const configs = hasObjects ? configsOf(stored) : [];
    const dropped = await Promise.all(
      configs.map((config) => this.#cleanup.drop(config, boundMs, signal, this.#by(stored))),
    );
    if (dropped.includes(false)) {
      // Another command came, or the service is ending: the next pass, or the next start, continues.
      if (signal.aborted) return;
      if (deletion === "wait") return this.#retryDeletion(stored);
    }
    if (hasObjects || stored.initialized || stored.roundBegunAt !== null)
      for (const config of configsOf(stored)) await this.#cleanup.dropAtSink(config, forcedDropMs, signal);
    await this.context.state.connectors.remove(stored.id, this.holding.term);
    this.#log.info("connector deleted");
    this.#forget();
  }

  /** Whoever has a higher term keeps what it made. */
  #by(stored: StoredConnector): DroppedBy {
    const { id, term } = this.holding;
    const { connectors } = this.context.state;
    return { owner: ownerOf(stored), term, confirm: () => connectors.confirmTerm(id, term) };
  }

  /** The connector is stopped but not deleted yet: the status says what the deletion waits for. */
  #retryDeletion({ id, runId }: StoredConnector): void {
    const { board } = this.context;
    const { code, message } = this.#cleanup.failure ?? new MillraceError("internal", "It is not known why.");
    const reason = `The deletion waits for the source: ${message} ForceDelete does not wait.`;
    const retry = { attempt: ++this.#failedDeletions, reason };
    board.failed(id, runId, new MillraceError(code, reason));
    board.report(id, runId, "Connector", { state: { shutdown: {} }, status: { retry } }, retryMs);
    this.#reconcileLater();
  }

  #reconcileLater(): void {
    if (!this.#closed) this.#retryTimer = setTimeout(() => this.reconcile(), retryMs);
  }

  #forget(): void {
    const { id, term, onGone } = this.holding;
    this.context.board.forget(id);
    // Another connector may have been stored under this id meanwhile. With other replicas, it gets a holder of its own.
    if (this.#isStale && term === null) return;
    // Nobody would end what this one began from here on.
    this.#closed = true;
    onGone();
  }
}
