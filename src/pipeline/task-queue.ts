// Snapshot tasks that wait for the pipeline to come to a place where it can run one.

import type { OfferedTask, TaskInbox } from "./run-reporter.ts";

export class TaskQueue implements TaskInbox {
  readonly #tasks: OfferedTask[] = [];
  readonly #offered = new Set<string>();
  #arrival = Promise.withResolvers<void>();

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
    this.#arrival.resolve();
  }

  take(): OfferedTask | null {
    const task = this.#tasks.shift() ?? null;
    if (this.#tasks.length === 0) this.#arrival = Promise.withResolvers<void>();
    return task;
  }

  arrival(): Promise<void> {
    return this.#arrival.promise;
  }
}
