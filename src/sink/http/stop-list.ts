// Ends posts early: by the signal that stops all of them, or by the timeout of each. One listener and one timer serve all posts under way.

export class TimedOut extends Error {}

/** Whether one post is to end, and the listener that is called then. */
export class RequestStop {
  isStopped = false;
  reason: unknown = null;
  #listener: ((reason: unknown) => void) | null = null;

  /** Calls `listener` when the post is stopped, in place of the one before; at once where it is stopped already. Null: none. */
  onStop(listener: ((reason: unknown) => void) | null): void {
    this.#listener = listener;
    if (this.isStopped) listener?.(this.reason);
  }

  stop(reason: unknown): void {
    if (this.isStopped) return;
    this.isStopped = true;
    this.reason = reason;
    this.#listener?.(reason);
  }

  /** Settles as `promise`, or rejects with the reason. */
  async race<T>(promise: Promise<T>): Promise<T> {
    try {
      return await new Promise((resolve, reject) => {
        this.onStop(reject);
        promise.then(resolve, reject);
      });
    } finally {
      this.onStop(null);
    }
  }
}

export class StopList {
  /** Posts under way, and when they time out by the monotonic clock. All have the same timeout, so the oldest comes first. */
  readonly #due = new Map<RequestStop, number>();
  #timer: Timer | null = null;

  constructor(
    readonly signal: AbortSignal,
    /** Of each post: covers DNS, connecting, sending and the response. */
    readonly timeoutMs: number,
  ) {
    const stop = () => {
      for (const each of this.#due.keys()) each.stop(signal.reason);
    };
    signal.addEventListener("abort", stop, { once: true });
  }

  /** A post begins. Call `end` when it is over. */
  begin(): RequestStop {
    const stop = new RequestStop();
    this.#due.set(stop, performance.now() + this.timeoutMs);
    if (this.signal.aborted) stop.stop(this.signal.reason);
    if (this.#timer === null) this.#wait(this.timeoutMs);
    return stop;
  }

  end(stop: RequestStop): void {
    this.#due.delete(stop);
  }

  /** The timer stays when no post is under way. It keeps no thread alive. */
  #wait(ms: number): void {
    this.#timer = setTimeout(() => this.#endOverdue(), ms);
    this.#timer.unref();
  }

  #endOverdue(): void {
    this.#timer = null;
    const now = performance.now();
    for (const [stop, dueMs] of this.#due) {
      if (dueMs > now) {
        this.#wait(Math.ceil(dueMs - now));
        return;
      }
      stop.stop(new TimedOut());
    }
  }
}
