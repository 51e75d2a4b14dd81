// The worker threads of one kind. Runs have threads of their own until there are `mostThreads`; further ones share them, since a
// thread costs memory and time of its own even where it has nothing to do.

import { availableParallelism } from "node:os";
import { type SeatEvents, type WorkerLine, WorkerThread } from "./worker-thread.ts";

const threadsPerCore = 2;
const leastThreads = 4;

/** So many threads of a kind, where nobody says otherwise. */
export function defaultThreads(cores = availableParallelism()): number {
  return Math.max(leastThreads, threadsPerCore * cores);
}

export class ThreadPool<To, From> {
  readonly #threads = new Set<WorkerThread<To, From>>();
  /** Those who may have brought a thread down, until one of theirs has ended in order: they take nobody along again. */
  readonly #alone = new Set<string>();
  readonly #closed = new Set<WorkerThread<To, From>>();

  constructor(
    private readonly url: URL,
    private readonly mostThreads: number,
  ) {}

  /** How many sit in each thread. */
  get seats(): readonly number[] {
    return [...this.#threads].map((thread) => thread.seats);
  }

  /** A seat for the run; `name` names its thread in messages, and is the same in each attempt. */
  open(name: string, events: SeatEvents<From>): WorkerLine<To> {
    const isAlone = this.#alone.has(name);
    const open = [...this.#threads].filter((thread) => !thread.isEnding && !this.#closed.has(thread));
    const [leastTaken] = open.toSorted((a, b) => a.seats - b.seats);
    const sitsAlone = isAlone || open.length < this.mostThreads || leastTaken === undefined;
    return (sitsAlone ? this.#begin(name, isAlone) : leastTaken).sit(name, events);
  }

  #begin(name: string, isClosed: boolean): WorkerThread<To, From> {
    const thread = new WorkerThread<To, From>(this.url, name);
    this.#threads.add(thread);
    if (isClosed) this.#closed.add(thread);
    void thread.gone.then((blamed) => {
      this.#threads.delete(thread);
      this.#closed.delete(thread);
      if (blamed.length === 0) this.#alone.delete(name);
      for (const each of blamed) this.#alone.add(each);
    });
    return thread;
  }
}
