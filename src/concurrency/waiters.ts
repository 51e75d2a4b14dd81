// Callers that wait for a change of something, and are woken together.

export class Waiters {
  #wakes: (() => void)[] = [];

  get areAny(): boolean {
    return this.#wakes.length > 0;
  }

  /** Resolves at the next `wake`. Look then whether what was waited for is so: something else may have changed. */
  change(): Promise<void> {
    return new Promise((resolve) => this.#wakes.push(resolve));
  }

  wake(): void {
    for (const wake of this.#wakes.splice(0)) wake();
  }
}
