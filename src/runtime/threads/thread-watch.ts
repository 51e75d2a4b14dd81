// Watches which of the service's threads are alive, and how late their event loops are.

import { pulseMs, threadPulse } from "../../measure/thread-pulse.ts";
import type { WorkerKind } from "../run/connector-run.ts";

/** A worker counts as stuck after so many missing pulses in a row: it computes or blocks without end. */
const missedPulses = 6;
export const stuckAfterMs = missedPulses * pulseMs;

export interface WatchedThread {
  /** Null: the main thread. */
  readonly connector: string | null;
  readonly thread: WorkerKind | "main";
}

interface Worker extends WatchedThread {
  loopDelayMs: number;
  missedPulses: number;
}

export class ThreadWatch implements Disposable {
  readonly #workers = new Map<string, Worker>();
  readonly #pulse: Disposable;
  #mainDelayMs = 0;

  constructor(private readonly everyMs = pulseMs) {
    const monotonic = () => performance.now();
    this.#pulse = threadPulse((loopDelayMs) => this.#onMainPulse(loopDelayMs), monotonic, everyMs);
  }

  began(connector: string, threads: readonly WorkerKind[]): void {
    for (const thread of threads) {
      this.#workers.set(`${connector} ${thread}`, { connector, thread, loopDelayMs: 0, missedPulses: 0 });
    }
  }

  ended(connector: string): void {
    for (const [key, worker] of this.#workers) if (worker.connector === connector) this.#workers.delete(key);
  }

  pulse(connector: string, thread: WorkerKind, loopDelayMs: number): void {
    const worker = this.#workers.get(`${connector} ${thread}`);
    if (worker) Object.assign(worker, { loopDelayMs, missedPulses: 0 });
  }

  /** Workers without a pulse for `stuckAfterMs`, while the main thread ran. */
  stuck(): readonly WatchedThread[] {
    return [...this.#workers.values()].filter((worker) => worker.missedPulses >= missedPulses);
  }

  /** The longest delay of each thread's event loop in its last `pulseMs`. */
  loopDelays(): readonly (WatchedThread & { readonly loopDelayMs: number })[] {
    const workers = [...this.#workers.values()].map((worker) => {
      const { connector, thread, loopDelayMs, missedPulses } = worker;
      // A silent worker is at least that late.
      return { connector, thread, loopDelayMs: Math.max(loopDelayMs, (missedPulses - 1) * this.everyMs) };
    });
    return [{ connector: null, thread: "main", loopDelayMs: this.#mainDelayMs }, ...workers];
  }

  [Symbol.dispose](): void {
    this.#pulse[Symbol.dispose]();
  }

  #onMainPulse(loopDelayMs: number): void {
    this.#mainDelayMs = loopDelayMs;
    // Counted in pulses of the main thread, not by the clock: a process that was frozen as a whole is not stuck.
    for (const worker of this.#workers.values()) worker.missedPulses++;
  }
}
