// Runs the tasks of a streaming run: a few at once, but only one per table.

import { type TaskResult, type TaskTable, tableOfTask } from "../../connector/task.ts";
import { toMillraceError } from "../../errors/millrace-error.ts";
import type { OfferedTask, TaskInbox } from "../run-reporter.ts";

const never = new AbortController().signal;

/** Carries a task out. Returns the result of a verification or a replay. */
export type TaskWork = (task: OfferedTask, signal: AbortSignal) => Promise<TaskResult | undefined>;

export interface RunningTasksOptions {
  readonly tasks: TaskInbox;
  /** Aborts the tasks, as disposing does. */
  readonly stop: AbortSignal;
  /** How many tasks run at once. */
  readonly limit: number;
  readonly work: TaskWork;
  /** Called when a task has ended: another one may be taken. */
  readonly ended: () => void;
  /** Called when the stream must begin again in another form. */
  readonly failed: (error: unknown) => void;
}

export class RunningTasks implements AsyncDisposable {
  readonly #running = new Map<string, Promise<void>>();
  /** The run's own copies. The first is under way. */
  readonly #own: OwnWork[] = [];
  #ownRunning: Promise<void> | null = null;
  readonly #abort = new AbortController();

  constructor(private readonly options: RunningTasksOptions) {}

  readonly mayRun = (task: OfferedTask): boolean => {
    const table = tableOf(tableOfTask(task.spec));
    const isOwn = this.#own.some(({ tables }) => tables.has(table));
    return !isOwn && this.#running.size < this.options.limit && !this.#running.has(table);
  };

  /** Queues the run's own work on these tables, which excludes tasks of them. One at a time. What it throws ends the run. */
  startOwn(tables: readonly TaskTable[], work: OwnWork["work"]): void {
    this.#own.push({ tables: new Set(tables.map(tableOf)), work });
    this.#admitOwn();
  }

  get areAny(): boolean {
    return this.#running.size > 0 || this.#own.length > 0;
  }

  start(task: OfferedTask): void {
    const ended = () => {
      this.#running.delete(tableOf(tableOfTask(task.spec)));
      this.options.ended();
    };
    this.#running.set(tableOf(tableOfTask(task.spec)), this.#runTask(task).finally(ended));
  }

  /** Aborts the running tasks. The next attempt resumes them. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort(new Error("the run has ended"));
    await Promise.all([...this.#running.values(), this.#ownRunning]);
  }

  #admitOwn(): void {
    const [own] = this.#own;
    const { stop, failed, ended } = this.options;
    const signal = AbortSignal.any([this.#abort.signal, stop]);
    if (!own || this.#ownRunning || signal.aborted) return;
    this.#ownRunning = own
      .work(signal)
      .catch((error: unknown) => {
        if (!signal.aborted) failed(error);
      })
      .finally(() => {
        this.#own.shift();
        this.#ownRunning = null;
        this.#admitOwn();
        ended();
      });
  }

  /** Reports the outcome on the task. Never rejects. */
  async #runTask(task: OfferedTask): Promise<void> {
    const { tasks, work, failed, stop } = this.options;
    const { cancelled = never } = task;
    const signal = AbortSignal.any([this.#abort.signal, stop, cancelled]);
    try {
      if (!(await task.claim())) return;
      const result = await work(task, signal);
      if (!cancelled.aborted) task.done(result);
    } catch (error) {
      if (cancelled.aborted) return;
      if (signal.aborted) return tasks.putBack(task);
      const failure = toMillraceError(error);
      if (failure.code !== "stream_form_changed") return task.failed(failure);
      tasks.putBack(task);
      failed(failure);
    }
  }
}

interface OwnWork {
  readonly tables: ReadonlySet<string>;
  readonly work: (signal: AbortSignal) => Promise<void>;
}

function tableOf({ database, schema, name }: TaskTable): string {
  return JSON.stringify([database, schema, name]);
}
