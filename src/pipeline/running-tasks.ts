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
  /** The run's own work: the first is under way. */
  readonly #own: OwnWork[] = [];
  #ownRunning: Promise<void> | null = null;
  readonly #cut = new AbortController();

  constructor(private readonly options: RunningTasksOptions) {}

  readonly mayRun = (task: OfferedTask): boolean => {
    const table = tableOf(task.spec);
    const isOwn = this.#own.some(({ tables }) => tables.has(table));
    return !isOwn && this.#running.size < this.options.limit && !this.#running.has(table);
  };

  /** Work of the run's own on these tables, beside the tasks of others: one after the other. What it throws ends the run. */
  startOwn(tables: readonly TableName[], work: OwnWork["work"]): void {
    this.#own.push({ tables: new Set(tables.map(tableOf)), work });
    this.#admitOwn();
  }

  get areAny(): boolean {
    return this.#running.size > 0 || this.#own.length > 0;
  }

  start(task: OfferedTask): void {
    const ended = () => {
      this.#running.delete(tableOf(task.spec));
      this.options.ended();
    };
    this.#running.set(tableOf(task.spec), this.#carryOut(task).finally(ended));
  }

  /** Cuts those that run: the next attempt takes them up. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#cut.abort(new Error("the run has ended"));
    await Promise.all([...this.#running.values(), this.#ownRunning]);
  }

  #admitOwn(): void {
    const [own] = this.#own;
    const { stop, failed, ended } = this.options;
    const cut = AbortSignal.any([this.#cut.signal, stop]);
    if (!own || this.#ownRunning || cut.aborted) return;
    this.#ownRunning = own
      .work(cut)
      .catch((error: unknown) => {
        if (!cut.aborted) failed(error);
      })
      .finally(() => {
        this.#own.shift();
        this.#ownRunning = null;
        this.#admitOwn();
        ended();
      });
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

interface TableName {
  readonly database: string;
  readonly schema: string;
  readonly name: string;
}

interface OwnWork {
  readonly tables: ReadonlySet<string>;
  readonly work: (cut: AbortSignal) => Promise<void>;
}

function tableOf({ database, schema, name }: TableName): string {
  return JSON.stringify([database, schema, name]);
}
