// The snapshot tasks of a rig over its runs, as the service's desk keeps them: a run that fails fails those that it had claimed, and one
// that was stopped or has died leaves them to the next, where they are to go on.

import type { TaskResult, TaskSpec } from "../../../src/connector/task.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import type { OfferedTask } from "../../../src/pipeline/run-reporter.ts";
import { TaskQueue } from "../../../src/pipeline/tasks/task-queue.ts";

interface RigTask {
  readonly task: OfferedTask;
  isClaimed: boolean;
}

export class RigTasks {
  readonly #open = new Map<string, RigTask>();
  /** As at the service. Else a run that was stopped or has died fails those that it had claimed as well. */
  goOn = false;
  #count = 0;

  /** `isDead`: the run was broken off. As a process that is dead, it tells nobody how its tasks end, where the next run goes on with them. */
  constructor(private readonly isDead: () => boolean) {}

  /** Resolves with the task's failure, or null; a verification with its result. */
  async offer(spec: TaskSpec, queue: TaskQueue): Promise<unknown> {
    const id = `task-${++this.#count}`;
    return await new Promise((resolve) => {
      const end = (outcome: unknown) => {
        this.#open.delete(id);
        resolve(outcome);
      };
      const claim = async () => {
        open.isClaimed = true;
        return true;
      };
      const task = {
        id,
        spec,
        claim,
        progress: () => {},
        done: (result?: TaskResult) => end(result ?? null),
        failed: (error: MillraceError) => {
          if (!this.goOn || !this.isDead()) end(error);
        },
      };
      const open: RigTask = { task, isClaimed: false };
      this.#open.set(id, open);
      queue.offer(id, task);
    });
  }

  /** Cancels what runs: it ends without an outcome. */
  cancel(queue: TaskQueue): void {
    for (const id of this.#open.keys()) queue.cancel(id);
    this.#open.clear();
  }

  /** What a run is offered. */
  begin(): TaskQueue {
    const queue = new TaskQueue();
    for (const [id, open] of [...this.#open]) {
      if (open.isClaimed && !this.goOn) {
        open.task.failed(new MillraceError("internal", "the task's run is over"));
        continue;
      }
      open.isClaimed = false;
      queue.offer(id, open.task);
    }
    return queue;
  }

  /** The run has ended so. One that begins again in another form goes on with them. */
  failed(error: MillraceError): void {
    const goesOn = error.code === "stream_form_changed";
    for (const open of [...this.#open.values()]) {
      if (!open.isClaimed) continue;
      if (goesOn) open.isClaimed = false;
      else open.task.failed(error);
    }
  }
}
