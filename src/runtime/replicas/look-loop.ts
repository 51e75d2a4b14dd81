// Looks again and again: after the time that each look returns, or soon after a poke. Never two looks at once.

import type { LeaseClock } from "./lease-clock.ts";

/** Calls `work` after so long; what it returns prevents that. */
export type Schedule = (ms: number, work: () => void) => () => void;

/** A poke hastens the next look to this; what comes meanwhile is seen by the same look. */
export const pokeMs = 20;

export class LookLoop {
  #looking: Promise<void> | null = null;
  #isPoked = false;
  #isEnded = false;
  #nextAt = Number.POSITIVE_INFINITY;
  #cancel = () => {};

  /** `look` must not throw. */
  constructor(
    private readonly look: () => Promise<number>,
    private readonly clock: LeaseClock,
    private readonly schedule: Schedule,
  ) {}

  start(): void {
    this.#lookIn(0);
  }

  poke(): void {
    if (this.#looking) this.#isPoked = true;
    else if (this.#nextAt > this.clock() + pokeMs) this.#lookIn(pokeMs);
  }

  /** Resolves when the look that goes on has ended. */
  async end(): Promise<void> {
    this.#isEnded = true;
    this.#cancel();
    await this.#looking;
  }

  #lookIn(ms: number): void {
    this.#cancel();
    if (this.#isEnded) return;
    this.#nextAt = this.clock() + ms;
    this.#cancel = this.schedule(ms, () => {
      this.#looking = this.look().then((nextMs) => {
        this.#looking = null;
        this.#lookIn(this.#isPoked ? pokeMs : nextMs);
        this.#isPoked = false;
      });
    });
  }
}
