// The snapshot tasks of a streaming run: a few at once, and for one table one after the other.

import { toMillraceError } from "../errors/millrace-error.ts";
import type { OfferedTask, TaskInbox } from "./run-reporter.ts";

/** A task's way through a run. */
export type TaskWork = (task: OfferedTask, cut: AbortSignal) => Promise<void>;

export interface RunningTasksOptions {
  readonly tasks: TaskInbox;
  /** Ends them, as disposing does. */
  readonly stop: AbortSignal;
  /** At once. */
  readonly limit: number;
  readonly work: TaskWork;
  /** One has ended: others may be taken. */
  readonly ended: () => void;
  /** The stream has to begin again in another form. */
  readonly failed: (error: unknown) => void;
}

export class RunningTasks implements AsyncDisposable {
  readonly #running = new Map<string, Promise<void>>();
  readonly #cut = new AbortController();

  constructor(private readonly options: RunningTasksOptions) {}

  readonly mayRun = (task: OfferedTask): boolean =>
    this.#running.size < this.options.limit && !this.#running.has(tableOf(task));

  get areAny(): boolean {
    return this.#running.size > 0;
  }

  start(task: OfferedTask): void {
    const ended = () => {
      this.#running.delete(tableOf(task));
      this.options.ended();
    };
    this.#running.set(tableOf(task), this.#carryOut(task).finally(ended));
  }

  /** Cuts those that run: the next attempt takes them up. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#cut.abort(new Error("the run has ended"));
    await Promise.all(this.#running.values());
  }

  /** Reports the outcome on the task. Never rejects. */
  async #carryOut(task: OfferedTask): Promise<void> {
    const { tasks, work, failed, stop } = this.options;
    const cut = AbortSignal.any([this.#cut.signal, stop]);
    try {
      if (!(await task.claim())) return;
      await work(task, cut);
      task.done();
    } catch (error) {
      if (cut.aborted) return tasks.putBack(task);
      const failure = toMillraceError(error);
      if (failure.code !== "stream_form_changed") return task.failed(failure);
      tasks.putBack(task);
      failed(failure);
    }
  }
}

function tableOf({ spec: { database, schema, name } }: OfferedTask): string {
  return JSON.stringify([database, schema, name]);
}
