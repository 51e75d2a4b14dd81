// The tasks of one connector and the run that carries them out: offers what is due, answers claims, keeps results.
// Which move is allowed is decided by src/connector/task-state.ts, inside the store's transaction.

import type { TaskProgress } from "../connector/task.ts";
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
import type { TaskStore } from "../state/task-store.ts";
import type { RunAttempt } from "./connector-run.ts";

export interface TaskDeskContext {
  readonly store: TaskStore;
  readonly log: Log;
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** Progress is stored at most this often; the last word always is. */
const progressIntervalMs = 1_000;
const storeAgainMs = 1_000;

export class TaskDesk {
  #run: RunAttempt | null = null;
  /** Offered to the attempt under way, and not answered yet. */
  readonly #offered = new Set<string>();
  readonly #running = new Set<string>();
  readonly #closed = new AbortController();
  #timer: Timer | undefined;
  #lastProgressMs = 0;
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
    for (const taskId of cut) {
      this.#enqueue(() => (error ? this.#fail(taskId, error) : this.#recover(taskId)));
    }
  }

  /** Something may be due: a new task, or one whose time has come. */
  wake(): void {
    this.#enqueue(() => this.#offerDue());
  }

  async claim(taskId: string): Promise<boolean> {
    this.#offered.delete(taskId);
    let isOurs = false;
    await this.context.store.change(this.connectorId, taskId, (task) => {
      isOurs = isEligible(task, this.context.nowMs());
      return isOurs ? claimTask(task) : null;
    });
    if (isOurs) this.#running.add(taskId);
    return isOurs;
  }

  progress(taskId: string, progress: TaskProgress): void {
    const nowMs = this.context.nowMs();
    if (!this.#running.has(taskId) || nowMs - this.#lastProgressMs < progressIntervalMs) return;
    this.#lastProgressMs = nowMs;
    this.#enqueue(() => this.context.store.saveProgress(taskId, progress));
  }

  ended(taskId: string, error: MillraceError | null): void {
    if (!this.#running.delete(taskId)) return;
    this.#enqueue(async () => {
      if (error) await this.#fail(taskId, error);
      else await this.#finish(taskId);
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
    if (!run) return;
    const nowMs = this.context.nowMs();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const task of await this.context.store.pending(this.connectorId)) {
      const spec = snapshotOf(task);
      if (!isEligible(task, nowMs)) nextMs = Math.min(nextMs, Date.parse(task.next_attempt_at ?? ""));
      else if (spec && !this.#offered.has(task.id)) {
        this.#offered.add(task.id);
        run.offerTask(task.id, spec);
      }
    }
    if (nextMs < Number.POSITIVE_INFINITY) {
      this.#timer = setTimeout(() => this.wake(), Math.min(Math.max(nextMs - nowMs, 10), 3_600_000));
    }
  }

  async #finish(taskId: string): Promise<void> {
    await this.context.store.change(this.connectorId, taskId, finishTask);
    this.context.log.info({ task: taskId }, "task done");
  }

  async #fail(taskId: string, error: MillraceError): Promise<void> {
    const { nowMs, random, log } = this.context;
    const failure = {
      reason: error.message,
      retryable: error.retry === "transient",
      nowMs: nowMs(),
      random: random(),
    };
    const task = await this.context.store.change(this.connectorId, taskId, (current) =>
      current.state === "Running" ? failTask(current, failure) : null,
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
