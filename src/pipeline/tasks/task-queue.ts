// Tasks that wait until the pipeline can run them.

import type { OfferedTask, TaskInbox } from "../run-reporter.ts";

export class TaskQueue implements TaskInbox {
  readonly #tasks: OfferedTask[] = [];
  /** Tasks that wait or run, each with what cancels it. */
  readonly #offered = new Map<string, AbortController>();
  #listener: (() => void) | null = null;

  /** Ignores a task that is offered again while it waits or runs. */
  offer(taskId: string, task: Omit<OfferedTask, "id">): void {
    if (this.#offered.has(taskId)) return;
    const cancelling = new AbortController();
    this.#offered.set(taskId, cancelling);
    const forget = () => this.#offered.delete(taskId);
    this.#tasks.push({
      ...task,
      id: taskId,
      cancelled: cancelling.signal,
      claim: async () => {
        const isOurs = await task.claim();
        if (!isOurs) forget();
        return isOurs;
      },
      done: (result) => {
        forget();
        task.done(result);
      },
      failed: (error) => {
        forget();
        task.failed(error);
      },
    });
    this.#listener?.();
  }

  /** Ends a task that runs; one that waits is refused when it is claimed. */
  cancel(taskId: string): void {
    this.#offered.get(taskId)?.abort(new Error("the task was cancelled"));
    this.#offered.delete(taskId);
  }

  take(mayRun: (task: OfferedTask) => boolean = () => true): OfferedTask | null {
    const at = this.#tasks.findIndex(mayRun);
    return at < 0 ? null : (this.#tasks.splice(at, 1)[0] ?? null);
  }

  /** It was claimed already, and is not asked for again. Where it is cancelled while it waits, its signal ends it. */
  putBack(task: OfferedTask): void {
    this.#tasks.unshift({ ...task, claim: async () => true });
  }

  onArrival(listener: (() => void) | null): void {
    this.#listener = listener;
  }
}
