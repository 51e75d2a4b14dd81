// A queue of messages for one reader, which waits for the next one for a bounded time.

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

  /** Returns the next message; null: none came within `waitMs`. `waitMs` null: it waits for ever. */
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
