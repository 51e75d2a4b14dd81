// Dispatches the tasks of one connector to its run: offers tasks that are due, answers claims, and stores results.
// src/connector/task-state.ts decides which transitions are allowed, inside the store's transaction.

import { type Task, type TaskProgress, type TaskResult, verifyResultOf } from "../connector/task.ts";
import { claimTask, failTask, finishTask, isEligible, recoverTask } from "../connector/task-state.ts";
import type { Term } from "../connector/term.ts";
import type { VerifyResult } from "../connector/verification.ts";
import { type MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import type { Log } from "../log.ts";
import { pendingBound, type TaskStore } from "../state/stores/task-store.ts";
import type { RunAttempt } from "./run/connector-run.ts";

export interface TaskDispatcherContext {
  readonly store: TaskStore;
  /** Of the holder that runs the connector. */
  readonly term: Term;
  readonly log: Log;
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  /** A task is due while no attempt is running. */
  readonly onTaskWaiting: () => void;
  /** A verification has ended. */
  readonly onVerified: (task: Task, result: VerifyResult) => void;
  /** A task has failed for good. */
  readonly onTaskFailed: (task: Task) => void;
}

/** A task's progress is stored at most this often. Its final progress is stored with its end. */
const progressIntervalMs = 1_000;
const storeRetryMs = 1_000;

interface RunningTask {
  progress: TaskProgress | null;
  storedAtMs: number;
  /** A save is under way: the next progress waits for it. */
  isStoring: boolean;
}

export class TaskDispatcher {
  #run: RunAttempt | null = null;
  /** Offered to the current attempt, and not answered yet. */
  readonly #offered = new Set<string>();
  /** More tasks may be pending than were looked at. */
  #mayBeMore = false;
  /** Claimed by the current attempt, with its progress. */
  readonly #running = new Map<string, RunningTask>();
  readonly #closed = new AbortController();
  /** It is yet to look for tasks that are due: for one more, it need not do so twice. */
  #willDispatch = false;
  #timer: Timer | undefined;
  #work: Promise<void> = Promise.resolve();

  constructor(
    private readonly connectorId: string,
    private readonly context: TaskDispatcherContext,
  ) {}

  /** How many tasks are running, and how many wait for the run to claim them. */
  get load(): { readonly running: number; readonly waiting: number } {
    return { running: this.#running.size, waiting: this.#offered.size };
  }

  /** An attempt has started: it is offered what is due. */
  attach(run: RunAttempt): void {
    this.#run = run;
    this.#offered.clear();
    this.dispatch();
  }

  /** The attempt has ended. Its tasks become pending again, or fail with `error`. */
  detach(error: MillraceError | null): void {
    this.#run = null;
    this.#offered.clear();
    clearTimeout(this.#timer);
    const interrupted = [...this.#running];
    this.#running.clear();
    for (const [taskId, { progress }] of interrupted) {
      this.#enqueue(() => (error ? this.#fail(taskId, error, progress) : this.#recover(taskId)));
    }
    // A task may have come while the attempt was ending.
    this.dispatch();
  }

  /** A task may be due: a new one, or one whose retry time has come. Or one that runs was cancelled. */
  dispatch(): void {
    if (this.#willDispatch) return;
    this.#willDispatch = true;
    this.#enqueue(async () => {
      this.#willDispatch = false;
      await this.#endCancelled();
      await this.#offerDue();
    });
  }

  /**
   * Whether the run may execute the task from now on. False, and offered again later, when the store does not answer,
   * whether it has stored the claim or not, or when the attempt has ended meanwhile.
   */
  async claim(taskId: string): Promise<boolean> {
    const run = this.#run;
    try {
      if (!(await this.#moveToRunning(taskId))) {
        this.#offered.delete(taskId);
        this.#enqueue(() => this.#offerMore());
        return false;
      }
    } catch (error) {
      const { code } = toMillraceError(error);
      // Its next holder runs it.
      if (code === "lease_lost") return false;
      if (code !== "state_unavailable") throw error;
      this.#release(taskId);
      return false;
    }
    if (run === null || run !== this.#run) {
      this.#release(taskId);
      return false;
    }
    this.#offered.delete(taskId);
    this.#running.set(taskId, { progress: null, storedAtMs: 0, isStoring: false });
    // It may have been cancelled since it was claimed.
    this.#enqueue(() => this.#endCancelled());
    return true;
  }

  progress(taskId: string, progress: TaskProgress): void {
    const task = this.#running.get(taskId);
    if (!task) return;
    task.progress = progress;
    const nowMs = this.context.nowMs();
    if (task.isStoring || nowMs - task.storedAtMs < progressIntervalMs) return;
    task.isStoring = true;
    task.storedAtMs = nowMs;
    this.#enqueue(async () => {
      // The progress of a task that has ended is stored with its end.
      if (this.#running.get(taskId) === task) await this.#saveProgress(taskId, task.progress ?? progress);
      task.isStoring = false;
    });
  }

  /** `result`: of a verification or a replay. */
  done(taskId: string, result: TaskResult | null): void {
    const finish = ({ progress }: RunningTask) => this.#finish(taskId, progress, result);
    this.#ended(taskId, finish, () => this.#offerMore());
  }

  failed(taskId: string, error: MillraceError): void {
    const fail = ({ progress }: RunningTask) => this.#fail(taskId, error, progress);
    this.#ended(taskId, fail, () => this.#offerDue());
  }

  #ended(taskId: string, store: (task: RunningTask) => Promise<void>, offer: () => Promise<void>): void {
    const task = this.#running.get(taskId);
    if (!task) return;
    this.#running.delete(taskId);
    // Apart: where offering is tried again, the end is not stored and told once more.
    this.#enqueue(() => store(task));
    this.#enqueue(offer);
  }

  /** Looks for others when half of those that it found have left: not for each that ends. */
  async #offerMore(): Promise<void> {
    if (this.#mayBeMore && this.#offered.size < pendingBound / 2) await this.#offerDue();
  }

  /** Resolves when everything so far is stored. What cannot be stored now is corrected by the next start. */
  async close(): Promise<void> {
    this.#closed.abort();
    clearTimeout(this.#timer);
    await this.#work;
  }

  async #offerDue(): Promise<void> {
    clearTimeout(this.#timer);
    const run = this.#run;
    const nowMs = this.context.nowMs();
    let nextMs = Number.POSITIVE_INFINITY;
    const pending = await this.context.store.pending(this.connectorId, nowMs);
    this.#mayBeMore = pending.length === pendingBound;
    for (const task of pending) {
      if (!isEligible(task, nowMs)) nextMs = Math.min(nextMs, Date.parse(task.next_attempt_at ?? ""));
      else if (run === null) this.context.onTaskWaiting();
      else if (!this.#offered.has(task.id)) {
        this.#offered.add(task.id);
        run.offerTask(task.id, task.spec);
      }
    }
    if (nextMs < Number.POSITIVE_INFINITY) {
      this.#timer = setTimeout(() => this.dispatch(), Math.min(Math.max(nextMs - nowMs, 10), 3_600_000));
    }
  }

  async #endCancelled(): Promise<void> {
    for (const taskId of [...this.#running.keys()]) {
      const task = await this.context.store.find(this.connectorId, taskId);
      if (task?.state !== "Cancelled" || !this.#running.delete(taskId)) continue;
      this.#run?.cancelTask(taskId);
      this.context.log.info({ task: taskId }, "task cancelled");
    }
  }

  async #moveToRunning(taskId: string): Promise<boolean> {
    let isOurs = false;
    await this.#change(taskId, (task) => {
      isOurs = isEligible(task, this.context.nowMs());
      return isOurs ? claimTask(task) : null;
    });
    return isOurs;
  }

  /** Counts as offered until it is surely pending again, so that it is not offered twice. */
  #release(taskId: string): void {
    this.#enqueue(async () => {
      if (!this.#running.has(taskId)) await this.#recover(taskId);
      this.#offered.delete(taskId);
      await this.#offerDue();
    });
  }

  // Each of these may run twice, when the store made the transition and its answer was lost.

  async #finish(taskId: string, progress: TaskProgress | null, result: TaskResult | null): Promise<void> {
    const task = await this.#change(taskId, (current) =>
      current.state === "Running" ? finishTask(withProgress(current, progress), result) : null,
    );
    this.context.log.info({ task: taskId }, "task done");
    const verified = task && verifyResultOf(task);
    if (verified) this.context.onVerified(task, verified);
  }

  async #fail(taskId: string, error: MillraceError, progress: TaskProgress | null): Promise<void> {
    const { nowMs, random, log } = this.context;
    const failure = {
      reason: error.message,
      retryable: error.retry === "transient",
      nowMs: nowMs(),
      random: random(),
    };
    const task = await this.#change(taskId, (current) =>
      current.state === "Running" ? failTask(withProgress(current, progress), failure) : null,
    );
    log.warn({ task: taskId, state: task?.state, code: error.code, reason: error.message }, "task failed");
    if (task?.state === "Failed") this.context.onTaskFailed(task);
  }

  async #recover(taskId: string): Promise<void> {
    await this.#change(taskId, recoverTask);
  }

  #change(taskId: string, decide: (task: Task) => Task | null): Promise<Task | null> {
    const { store, term } = this.context;
    return store.change(this.connectorId, taskId, decide, term);
  }

  #saveProgress(taskId: string, progress: TaskProgress): Promise<void> {
    const { store, term } = this.context;
    return store.saveProgress(this.connectorId, taskId, progress, term);
  }

  /** Runs the work one by one, in the order of events. */
  #enqueue(work: () => Promise<void>): void {
    this.#work = this.#work
      .then(() => this.#untilStored(work))
      .catch((error: unknown) => {
        // Its next holder begins it anew.
        if (toMillraceError(error).code === "lease_lost") return;
        this.context.log.error({ error }, "a task's record could not be kept");
      });
  }

  /** Retries while the store is away: a task that has ended must not stay Running. */
  async #untilStored(work: () => Promise<void>): Promise<void> {
    while (true) {
      try {
        return await work();
      } catch (error) {
        if (this.#closed.signal.aborted || toMillraceError(error).code !== "state_unavailable") throw error;
        this.context.log.warn({ error }, "the state store is away; a task's record waits for it");
        await this.context.sleep(storeRetryMs, this.#closed.signal);
      }
    }
  }
}

function withProgress(task: Task, progress: TaskProgress | null): Task {
  return progress === null ? task : { ...task, progress };
}
