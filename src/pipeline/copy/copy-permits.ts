// Bounds what copies of several tables do at once, all together: one permit for each connection.

export class CopyPermits {
  readonly #waiting: { readonly size: number; readonly enter: () => void }[] = [];

  constructor(private free: number) {}

  /** Runs `work` when `size` permits are free. Rejects with the reason of `signal` if that fires before. */
  async within<T>(size: number, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#enter(size, signal);
    try {
      return await work();
    } finally {
      this.free += size;
      this.#admit();
    }
  }

  async #enter(size: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (size === 0) return;
    const entered = Promise.withResolvers<void>();
    const waiting = { size, enter: entered.resolve };
    const leave = () => {
      const at = this.#waiting.indexOf(waiting);
      if (at < 0) return;
      this.#waiting.splice(at, 1);
      entered.reject(signal.reason);
      this.#admit();
    };
    signal.addEventListener("abort", leave, { once: true });
    this.#waiting.push(waiting);
    this.#admit();
    try {
      await entered.promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  /** First come, first served: otherwise a request for many permits could wait for ever. */
  #admit(): void {
    for (let next = this.#waiting[0]; next && next.size <= this.free; next = this.#waiting[0]) {
      this.#waiting.shift();
      this.free -= next.size;
      next.enter();
    }
  }
}
