// Runs the tasks of a streaming run: a few at once, but only one per table. And the run's own work on tables, one after the other.

import type { TableShape } from "../../change/relation.ts";
import { neverAborted } from "../../concurrency/until-aborted.ts";
import type { TaskResult } from "../../connector/task.ts";
import { type TaskTable, tableOfTask } from "../../connector/task-table.ts";
import { toMillraceError } from "../../errors/millrace-error.ts";
import type { OfferedTask, TaskInbox } from "../run-reporter.ts";

/** Carries a task out. Returns the result of a verification or a replay. */
export type TaskWork = (task: OfferedTask, signal: AbortSignal) => Promise<TaskResult | undefined>;

export interface RunningTasksOptions {
  readonly tasks: TaskInbox;
  /** Aborts the tasks, as disposing does. */
  readonly stop: AbortSignal;
  /** How many tasks run at once. */
  readonly limit: number;
  readonly work: TaskWork;
  /** The OID of the table that has this name now, as far as the run knows; null: none that it knows. */
  readonly idOf: (table: TaskTable) => number | null;
  /** Called when a task has ended: another one may be taken. */
  readonly ended: () => void;
  /** Called when the stream must begin again in another form. */
  readonly failed: (error: unknown) => void;
}

export class RunningTasks implements AsyncDisposable {
  readonly #running = new Set<RunningTask>();
  /** The first is under way. */
  readonly #own: OwnWork[] = [];
  #ownRunning: Promise<void> | null = null;
  readonly #abort = new AbortController();

  constructor(private readonly options: RunningTasksOptions) {}

  readonly mayRun = (task: OfferedTask): boolean => {
    // Each batch asks this of each task that waits.
    if (this.#running.size >= this.options.limit) return false;
    const id = this.#idOf(task);
    if (this.#own.some(({ ids }) => id !== null && ids.has(id))) return false;
    // A table may get its name, and the run may hear of it, while a task of it runs.
    return ![...this.#running].some(
      ({ task: other, id: was }) =>
        nameOf(other) === nameOf(task) || (id !== null && (was ?? this.#idOf(other)) === id),
    );
  };

  /**
   * Queues the run's own work on these tables, which excludes tasks of them, whatever names they get. One at a time, and copies come before
   * proofs: until then their tables are no use to anybody. What `work` throws ends the run.
   */
  startOwn(kind: OwnWork["kind"], tables: readonly TableShape[], work: OwnWork["work"]): void {
    const own = { kind, ids: new Set(tables.map(({ relation }) => relation.id)), work };
    const behind = this.#own.findIndex((other, at) => at > 0 && other.kind === "proof");
    if (kind === "proof" || behind < 0) this.#own.push(own);
    else this.#own.splice(behind, 0, own);
    this.#admitOwn();
  }

  /** Whether the table is to be proved, or is being proved. A task that was started under a name that the table has only just got leaves it alone. */
  isProving({ relation }: TableShape): boolean {
    return this.#own.some(({ kind, ids }) => kind === "proof" && ids.has(relation.id));
  }

  get areAny(): boolean {
    return this.#running.size > 0 || this.#own.length > 0;
  }

  start(task: OfferedTask): void {
    const ended = this.#runTask(task).finally(() => {
      this.#running.delete(running);
      this.options.ended();
    });
    const running = { task, id: this.#idOf(task), ended };
    this.#running.add(running);
  }

  /** Aborts the running tasks. The next attempt resumes them. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort(new Error("the run has ended"));
    await Promise.all([...[...this.#running].map(({ ended }) => ended), this.#ownRunning]);
  }

  /** The OID of the task's table; null: nobody knows it. */
  #idOf({ spec }: OfferedTask): number | null {
    return this.options.idOf(tableOfTask(spec));
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
    const { cancelled = neverAborted } = task;
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

function nameOf({ spec }: OfferedTask): string {
  const { database, schema, name } = tableOfTask(spec);
  return JSON.stringify([database, schema, name]);
}

interface RunningTask {
  readonly task: OfferedTask;
  /** The OID of its table when it began, if that was known. */
  readonly id: number | null;
  readonly ended: Promise<void>;
}

interface OwnWork {
  readonly kind: "copies" | "proof";
  /** OIDs of its tables. */
  readonly ids: ReadonlySet<number>;
  readonly work: (signal: AbortSignal) => Promise<void>;
}
