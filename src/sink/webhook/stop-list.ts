// What ends posts before they have ended by themselves: the signal that stops all of them, and for each its timeout. One listener
// and one timer serve all posts under way.

export class TimedOut extends Error {}

export class StopList {
  /** Posts under way and when they time out, by the monotonic clock. All have the same timeout: the oldest comes first. */
  readonly #due = new Map<AbortController, number>();
  #timer: Timer | null = null;

  constructor(
    readonly signal: AbortSignal,
    /** Of each post: covers DNS, connecting, sending and the response. */
    readonly timeoutMs: number,
  ) {
    const stop = () => {
      for (const controller of this.#due.keys()) controller.abort(signal.reason);
    };
    signal.addEventListener("abort", stop, { once: true });
  }

  /** Of a post that begins now; `end` it. */
  begin(): AbortController {
    const controller = new AbortController();
    this.#due.set(controller, performance.now() + this.timeoutMs);
    if (this.signal.aborted) controller.abort(this.signal.reason);
    if (this.#timer === null) this.#wait(this.timeoutMs);
    return controller;
  }

  end(controller: AbortController): void {
    this.#due.delete(controller);
  }

  /** The timer stays when nothing is under way any more, and keeps no thread alive. */
  #wait(ms: number): void {
    this.#timer = setTimeout(() => this.#endOverdue(), ms);
    this.#timer.unref();
  }

  #endOverdue(): void {
    this.#timer = null;
    const now = performance.now();
    for (const [controller, dueMs] of this.#due) {
      if (dueMs > now) {
        this.#wait(Math.ceil(dueMs - now));
        return;
      }
      controller.abort(new TimedOut());
    }
  }
}
