// Messages in the order of their arrival, for one reader that waits with a bound.

export class Inbox<M> {
  readonly #messages: M[] = [];
  #wake: (() => void) | null = null;

  get isEmpty(): boolean {
    return this.#messages.length === 0;
  }

  put(message: M): void {
    this.#messages.push(message);
    this.#wake?.();
  }

  /** Ends a wait without a message. */
  wake(): void {
    this.#wake?.();
  }

  /** The next message; null after `waitMs` without one. `waitMs` null: waits for ever. */
  async take(waitMs: number | null): Promise<M | null> {
    const first = this.#messages.shift();
    if (first !== undefined) return first;
    await new Promise<void>((resolve) => {
      const timer = waitMs === null ? null : setTimeout(resolve, waitMs);
      this.#wake = () => {
        if (timer !== null) clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = null;
    return this.#messages.shift() ?? null;
  }
}
