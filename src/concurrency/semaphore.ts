// A semaphore: limits how many callers work at once. The others wait in the order of their calls.

export type Permits = Pick<Semaphore, "acquire">;

export class Semaphore {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(permits = 1) {
    this.#free = permits;
  }

  /**
   * Resolves with a function that releases the permit; only its first call counts. Throws `signal.reason` when aborted.
   */
  async acquire(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#wait(signal);
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    };
  }

  /** Runs `work` with a permit. Throws `signal.reason` if that fires before there is one. */
  async within<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const release = await this.acquire(signal);
    try {
      return await work();
    } finally {
      release();
    }
  }

  #wait(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const go = () => {
        signal?.removeEventListener("abort", giveUp);
        resolve();
      };
      const giveUp = () => {
        this.#waiting.splice(this.#waiting.indexOf(go), 1);
        reject(signal?.reason);
      };
      this.#waiting.push(go);
      signal?.addEventListener("abort", giveUp, { once: true });
    });
  }
}
