// Runs pieces of work, a few side by side. A piece may add others, which come before those that wait.

export type Work = () => Promise<void>;

export class WorkPool {
  readonly #waiting: Work[] = [];
  #running = 0;
  #failure: { readonly error: unknown } | null = null;
  readonly #ended = Promise.withResolvers<void>();

  constructor(
    private readonly parallel: number,
    /** Finish what is in hand, and begin nothing else. */
    private readonly stop: AbortSignal,
  ) {}

  /** Before what waits already, in the order given. */
  add(works: readonly Work[]): void {
    this.#waiting.push(...works.toReversed());
    this.#go();
  }

  /** Returns when nothing is left, or what was in hand is finished after it was stopped. The first failure ends what waits, and is thrown. */
  async ended(): Promise<void> {
    this.#go();
    await this.#ended.promise;
  }

  #go(): void {
    while (this.#running < this.parallel && this.#failure === null && !this.stop.aborted) {
      const work = this.#waiting.pop();
      if (!work) break;
      this.#running++;
      void this.#run(work);
    }
    if (this.#running > 0) return;
    if (this.#failure) this.#ended.reject(this.#failure.error);
    else this.#ended.resolve();
  }

  async #run(work: Work): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#failure ??= { error };
    }
    this.#running--;
    this.#go();
  }
}
