// The tasks of one connector and the run that carries them out: offers what is due, answers claims, keeps results.
// Which move is allowed is decided by src/connector/task-state.ts, inside the store's transaction.

import type { Task, TaskProgress } from "../connector/task.ts";
import {
  claimTask,
  failTask,
  finishTask,
  isEligible,
  recoverTask,
  snapshotOf,
} from "../connector/task-state.ts";
import { type MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import type { Log } from "../log.ts";
import type { TaskStore } from "../state/stores/task-store.ts";
import type { RunAttempt } from "./run/connector-run.ts";

export interface TaskDeskContext {
  readonly store: TaskStore;
  readonly log: Log;
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  /** A task is due, and no attempt is up. */
  readonly waiting: () => void;
}

/** A task's progress is stored at most this often; what it came to is stored with its end. */
const progressIntervalMs = 1_000;
const storeAgainMs = 1_000;

interface RunningTask {
  progress: TaskProgress | null;
  storedMs: number;
  /** While one is being stored, the next one waits for its turn. */
  isStoring: boolean;
}

export class TaskDesk {
  #run: RunAttempt | null = null;
  /** Offered to the attempt under way, and not answered yet. */
  readonly #offered = new Set<string>();
  /** Claimed by the attempt under way, with how far it said to be. */
  readonly #running = new Map<string, RunningTask>();
  readonly #closed = new AbortController();
  #timer: Timer | undefined;
  #work: Promise<void> = Promise.resolve();

  constructor(
    private readonly connectorId: string,
    private readonly context: TaskDeskContext,
  ) {}

  /** How many tasks run now, and how many wait for the run to take them. */
  get load(): { readonly running: number; readonly waiting: number } {
    return { running: this.#running.size, waiting: this.#offered.size };
  }

  /** An attempt is up: it is offered what is due. */
  attach(run: RunAttempt): void {
    this.#run = run;
    this.#offered.clear();
    this.wake();
  }

  /** The attempt is gone. What it was doing is pending again, or failed by `error`. */
  detach(error: MillraceError | null): void {
    this.#run = null;
    this.#offered.clear();
    clearTimeout(this.#timer);
    const cut = [...this.#running];
    this.#running.clear();
    for (const [taskId, { progress }] of cut) {
      this.#enqueue(() => (error ? this.#fail(taskId, error, progress) : this.#recover(taskId)));
    }
    // What came when the attempt was about to end.
    this.wake();
  }

  /** Something may be due: a new task, or one whose time has come. */
  wake(): void {
    this.#enqueue(() => this.#offerDue());
  }

  /**
   * Whether the task is the run's from now on. It is not, and is offered again later, when the store does not answer,
   * whatever became of the move there; nor when the run has gone meanwhile.
   */
  async claim(taskId: string): Promise<boolean> {
    const run = this.#run;
    try {
      if (!(await this.#moveToRunning(taskId))) {
        this.#offered.delete(taskId);
        return false;
      }
    } catch (error) {
      if (toMillraceError(error).code !== "state_unavailable") throw error;
      this.#giveBack(taskId);
      return false;
    }
    if (run === null || run !== this.#run) {
      this.#giveBack(taskId);
      return false;
    }
    this.#offered.delete(taskId);
    this.#running.set(taskId, { progress: null, storedMs: 0, isStoring: false });
    return true;
  }

  progress(taskId: string, progress: TaskProgress): void {
    const task = this.#running.get(taskId);
    if (!task) return;
    task.progress = progress;
    const nowMs = this.context.nowMs();
    if (task.isStoring || nowMs - task.storedMs < progressIntervalMs) return;
    task.isStoring = true;
    task.storedMs = nowMs;
    this.#enqueue(async () => {
      // One that ended meanwhile has been stored with its end, or will be.
      if (this.#running.get(taskId) === task)
        await this.context.store.saveProgress(taskId, task.progress ?? progress);
      task.isStoring = false;
    });
  }

  ended(taskId: string, error: MillraceError | null): void {
    const task = this.#running.get(taskId);
    if (!task) return;
    this.#running.delete(taskId);
    this.#enqueue(async () => {
      if (error) await this.#fail(taskId, error, task.progress);
      else await this.#finish(taskId, task.progress);
      await this.#offerDue();
    });
  }

  /** Resolves when everything so far is stored; what cannot be stored now is left: the next start puts it right. */
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
    for (const task of await this.context.store.pending(this.connectorId)) {
      const spec = snapshotOf(task);
      if (!isEligible(task, nowMs)) nextMs = Math.min(nextMs, Date.parse(task.next_attempt_at ?? ""));
      else if (spec && run === null) this.context.waiting();
      else if (spec && !this.#offered.has(task.id)) {
        this.#offered.add(task.id);
        run?.offerTask(task.id, spec);
      }
    }
    if (nextMs < Number.POSITIVE_INFINITY) {
      this.#timer = setTimeout(() => this.wake(), Math.min(Math.max(nextMs - nowMs, 10), 3_600_000));
    }
  }

  async #moveToRunning(taskId: string): Promise<boolean> {
    let isOurs = false;
    await this.context.store.change(this.connectorId, taskId, (task) => {
      isOurs = isEligible(task, this.context.nowMs());
      return isOurs ? claimTask(task) : null;
    });
    return isOurs;
  }

  /** Until it is pending again for certain, it counts as offered: nobody else is to take it up. */
  #giveBack(taskId: string): void {
    this.#enqueue(async () => {
      if (!this.#running.has(taskId)) await this.#recover(taskId);
      this.#offered.delete(taskId);
      await this.#offerDue();
    });
  }

  // Each of these may come a second time, when the store made the move and its answer was lost.

  async #finish(taskId: string, progress: TaskProgress | null): Promise<void> {
    await this.context.store.change(this.connectorId, taskId, (task) =>
      task.state === "Running" ? finishTask(withProgress(task, progress)) : null,
    );
    this.context.log.info({ task: taskId }, "task done");
  }

  async #fail(taskId: string, error: MillraceError, progress: TaskProgress | null): Promise<void> {
    const { nowMs, random, log } = this.context;
    const failure = {
      reason: error.message,
      retryable: error.retry === "transient",
      nowMs: nowMs(),
      random: random(),
    };
    const task = await this.context.store.change(this.connectorId, taskId, (current) =>
      current.state === "Running" ? failTask(withProgress(current, progress), failure) : null,
    );
    log.warn({ task: taskId, state: task?.state, code: error.code, reason: error.message }, "task failed");
  }

  async #recover(taskId: string): Promise<void> {
    await this.context.store.change(this.connectorId, taskId, recoverTask);
  }

  /** One after the other, in the order of what happened. */
  #enqueue(work: () => Promise<void>): void {
    this.#work = this.#work
      .then(() => this.#untilStored(work))
      .catch((error: unknown) => this.context.log.error({ error }, "a task's record could not be kept"));
  }

  /** While the store is away, what happened waits: a task that ended must not stay Running. */
  async #untilStored(work: () => Promise<void>): Promise<void> {
    while (true) {
      try {
        return await work();
      } catch (error) {
        if (this.#closed.signal.aborted || toMillraceError(error).code !== "state_unavailable") throw error;
        this.context.log.warn({ error }, "the state store is away; a task's record waits for it");
        await this.context.sleep(storeAgainMs, this.#closed.signal);
      }
    }
  }
}

function withProgress(task: Task, progress: TaskProgress | null): Task {
  return progress === null ? task : { ...task, progress };
}
