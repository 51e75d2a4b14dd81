// One at a time, or so many: who asks while others have their turns waits, in the order of asking.

export class Turns {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(atOnce = 1) {
    this.#free = atOnce;
  }

  /** Resolves when it is the caller's turn, with what ends it. */
  async take(): Promise<() => void> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    let hasEnded = false;
    return () => {
      if (hasEnded) return;
      hasEnded = true;
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    };
  }
}
