// The worker threads of one kind. Each run gets a thread of its own until there are `maxThreads`. Further runs share
// threads, because an idle thread costs memory and time too.

import { availableParallelism } from "node:os";
import { type WorkerChannel, type WorkerEvents, WorkerThread } from "./worker-thread.ts";

const threadsPerCore = 2;
const minThreads = 4;

/** The default number of threads of each kind. */
export function defaultThreads(cores = availableParallelism()): number {
  return Math.max(minThreads, threadsPerCore * cores);
}

export class ThreadPool<To, From> {
  readonly #threads = new Set<WorkerThread<To, From>>();
  /**
   * Runs that may have crashed a thread. Each gets a thread of its own until it has ended in order, so that it takes no
   * other run down again.
   */
  readonly #isolated = new Set<string>();
  readonly #exclusive = new Set<WorkerThread<To, From>>();

  constructor(
    private readonly url: URL,
    private readonly maxThreads: number,
  ) {}

  /** The number of assignments in each thread. */
  get assignmentCounts(): readonly number[] {
    return [...this.#threads].map((thread) => thread.assignmentCount);
  }

  /** Assigns a run to a thread. `name` names the run in messages, and is the same in each attempt. */
  open(name: string, events: WorkerEvents<From>): WorkerChannel<To> {
    const isIsolated = this.#isolated.has(name);
    const open = [...this.#threads].filter((thread) => !thread.isEnding && !this.#exclusive.has(thread));
    const [leastLoaded] = open.toSorted((a, b) => a.assignmentCount - b.assignmentCount);
    const needsThread = isIsolated || open.length < this.maxThreads || leastLoaded === undefined;
    return (needsThread ? this.#start(name, isIsolated) : leastLoaded).assign(name, events);
  }

  #start(name: string, isExclusive: boolean): WorkerThread<To, From> {
    const thread = new WorkerThread<To, From>(this.url, name);
    this.#threads.add(thread);
    if (isExclusive) this.#exclusive.add(thread);
    void thread.gone.then((suspects) => {
      this.#threads.delete(thread);
      this.#exclusive.delete(thread);
      if (isExclusive && suspects.length === 0) this.#isolated.delete(name);
      for (const suspect of suspects) this.#isolated.add(suspect);
    });
    return thread;
  }
}
