// Which of the service's threads are alive, and how late their event loops have been.

import { pulseMs, threadPulse } from "../../measure/thread-pulse.ts";
import type { WorkerKind } from "../run/connector-run.ts";

/** Of a worker's signs of life, so many in a row are missing when it counts as stuck: it computes, or waits for something, without end. */
const missedPulses = 6;
export const stuckAfterMs = missedPulses * pulseMs;

export interface WatchedThread {
  /** Null: the main thread. */
  readonly connector: string | null;
  readonly thread: WorkerKind | "main";
}

interface Worker extends WatchedThread {
  loopDelayMs: number;
  missed: number;
}

export class ThreadWatch implements Disposable {
  readonly #workers = new Map<string, Worker>();
  readonly #pulse: Disposable;
  #mainDelayMs = 0;

  constructor(private readonly everyMs = pulseMs) {
    const monotonic = () => performance.now();
    this.#pulse = threadPulse((loopDelayMs) => this.#beat(loopDelayMs), monotonic, everyMs);
  }

  began(connector: string, threads: readonly WorkerKind[]): void {
    for (const thread of threads) {
      this.#workers.set(`${connector} ${thread}`, { connector, thread, loopDelayMs: 0, missed: 0 });
    }
  }

  ended(connector: string): void {
    for (const [key, worker] of this.#workers) if (worker.connector === connector) this.#workers.delete(key);
  }

  heard(connector: string, thread: WorkerKind, loopDelayMs: number): void {
    const worker = this.#workers.get(`${connector} ${thread}`);
    if (worker) Object.assign(worker, { loopDelayMs, missed: 0 });
  }

  /** Workers that have given no sign of life for `stuckAfterMs`, while the main thread ran. */
  stuck(): readonly WatchedThread[] {
    return [...this.#workers.values()].filter(({ missed }) => missed >= missedPulses);
  }

  /** The longest delay of each thread's event loop over its last `pulseMs`. */
  loopDelays(): readonly (WatchedThread & { readonly loopDelayMs: number })[] {
    const workers = [...this.#workers.values()].map(({ connector, thread, loopDelayMs, missed }) => {
      // One that is silent is late by as much, at least.
      return { connector, thread, loopDelayMs: Math.max(loopDelayMs, (missed - 1) * this.everyMs) };
    });
    return [{ connector: null, thread: "main", loopDelayMs: this.#mainDelayMs }, ...workers];
  }

  [Symbol.dispose](): void {
    this.#pulse[Symbol.dispose]();
  }

  #beat(loopDelayMs: number): void {
    this.#mainDelayMs = loopDelayMs;
    // By beats of our own, not by the clock: what was frozen with us is not stuck.
    for (const worker of this.#workers.values()) worker.missed++;
  }
}
