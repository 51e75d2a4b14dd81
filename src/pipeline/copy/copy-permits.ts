// Bounds what copies of several tables do at once, all together: one permit for each connection.

export class CopyPermits {
  /** First come, first served. */
  readonly #waiting: (() => void)[] = [];

  constructor(private free: number) {}

  /** Runs `work` when a permit is free. Rejects with the reason of `signal` if that fires before. */
  async within<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    if (this.free > 0) this.free--;
    else await this.#turn(signal);
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.free++;
    }
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const turn = Promise.withResolvers<void>();
    const leave = () => {
      const at = this.#waiting.indexOf(turn.resolve);
      if (at >= 0) this.#waiting.splice(at, 1);
      turn.reject(signal.reason);
    };
    this.#waiting.push(turn.resolve);
    signal.addEventListener("abort", leave, { once: true });
    await turn.promise.finally(() => signal.removeEventListener("abort", leave));
  }
}
