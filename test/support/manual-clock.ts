// A clock that stands still until a test moves it, with the timers that are set by it.

interface Timer {
  readonly atMs: number;
  readonly work: () => void;
}

export class ManualClock {
  nowMs = 0;
  #timers: Timer[] = [];

  readonly now = () => this.nowMs;

  readonly schedule = (ms: number, work: () => void): (() => void) => {
    const timer = { atMs: this.nowMs + ms, work };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  };

  get timers(): number {
    return this.#timers.length;
  }

  /** Lets the time pass, with all timers in their order. What they begin goes on until it waits for the clock. */
  async pass(ms: number): Promise<void> {
    const endMs = this.nowMs + ms;
    await settled();
    for (let next = this.#next(endMs); next; next = this.#next(endMs)) {
      this.#timers = this.#timers.filter((other) => other !== next);
      this.nowMs = Math.max(this.nowMs, next.atMs);
      next.work();
      await settled();
    }
    this.nowMs = endMs;
  }

  #next(endMs: number): Timer | undefined {
    return this.#timers.filter(({ atMs }) => atMs <= endMs).sort((a, b) => a.atMs - b.atMs)[0];
  }
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
}
