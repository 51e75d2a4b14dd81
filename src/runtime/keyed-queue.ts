// Work on the same key, one after the other in the order of asking; work on different keys side by side.

export class KeyedQueue {
  readonly #tails = new Map<string, Promise<unknown>>();

  /** Runs `work` when everything asked for before under `key` is over, however it ended. */
  run<Result>(key: string, work: () => Promise<Result>): Promise<Result> {
    const previous = this.#tails.get(key) ?? Promise.resolve();
    const result = previous.then(work, work);
    const tail = result
      .catch(() => {})
      .then(() => {
        if (this.#tails.get(key) === tail) this.#tails.delete(key);
      });
    this.#tails.set(key, tail);
    return result;
  }
}
