// Snapshot tasks that wait for the pipeline to come to a place where it can run one.

import type { OfferedTask, TaskInbox } from "./run-reporter.ts";

export class TaskQueue implements TaskInbox {
  readonly #tasks: OfferedTask[] = [];
  readonly #offered = new Set<string>();
  #listener: (() => void) | null = null;

  /** The same task offered again while it waits or runs is the same task. */
  offer(taskId: string, task: OfferedTask): void {
    if (this.#offered.has(taskId)) return;
    this.#offered.add(taskId);
    const forget = () => this.#offered.delete(taskId);
    this.#tasks.push({
      ...task,
      claim: async () => {
        const isOurs = await task.claim();
        if (!isOurs) forget();
        return isOurs;
      },
      done: () => {
        forget();
        task.done();
      },
      failed: (error) => {
        forget();
        task.failed(error);
      },
    });
    this.#listener?.();
  }

  take(): OfferedTask | null {
    return this.#tasks.shift() ?? null;
  }

  onArrival(listener: (() => void) | null): void {
    this.#listener = listener;
  }
}
