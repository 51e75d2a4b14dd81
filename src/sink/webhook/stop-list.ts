// What ends posts before they have ended by themselves: the signal that stops all of them, and for each its timeout. One listener
// and one timer serve all posts under way.

export class TimedOut extends Error {}

/** Of one post: whether it is to end, and who is told then. */
export class PostStop {
  isStopped = false;
  reason: unknown = null;
  #listener: ((reason: unknown) => void) | null = null;

  /** Tells `listener`, and nobody before it; at once where it is stopped already. Null: nobody. */
  tell(listener: ((reason: unknown) => void) | null): void {
    this.#listener = listener;
    if (this.isStopped) listener?.(this.reason);
  }

  stop(reason: unknown): void {
    if (this.isStopped) return;
    this.isStopped = true;
    this.reason = reason;
    this.#listener?.(reason);
  }

  /** As `promise`, or rejects with the reason. */
  async race<T>(promise: Promise<T>): Promise<T> {
    try {
      return await new Promise((resolve, reject) => {
        this.tell(reject);
        promise.then(resolve, reject);
      });
    } finally {
      this.tell(null);
    }
  }
}

export class StopList {
  /** Posts under way and when they time out, by the monotonic clock. All have the same timeout: the oldest comes first. */
  readonly #due = new Map<PostStop, number>();
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

  /** Of a post that begins now; `end` it. */
  begin(): PostStop {
    const stop = new PostStop();
    this.#due.set(stop, performance.now() + this.timeoutMs);
    if (this.signal.aborted) stop.stop(this.signal.reason);
    if (this.#timer === null) this.#wait(this.timeoutMs);
    return stop;
  }

  end(stop: PostStop): void {
    this.#due.delete(stop);
  }

  /** The timer stays when nothing is under way any more, and keeps no thread alive. */
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
