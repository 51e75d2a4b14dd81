// A sink that fails now and then turns a status from well to retrying and back, many times a second it may be. Each turn is told a
// few times; after that only what holds in the end is.
// Pure.

import type { HistoryComponent, Status } from "../../connector/status.ts";

const mostTold = 3;

export class RepeatedHealth {
  /** By what was told: when, in milliseconds, within the window. */
  readonly #toldAt = new Map<string, readonly number[]>();

  constructor(private readonly windowMs: number) {}

  /** Whether the status is told now, which then counts as told, or in how many milliseconds it may be. */
  waitMs(component: HistoryComponent, { state, status }: Status, nowMs: number): number {
    const turn = status.retry ? "retry" : status.heartbeat ? "heartbeat" : null;
    if (turn === null) return 0;
    this.#forgetBefore(nowMs - this.windowMs);
    // Without what differs each time: attempts are counted, and reasons quote what the sink said.
    const key = `${component} ${turn} ${JSON.stringify(state)}`;
    const told = this.#toldAt.get(key) ?? [];
    const [oldest = nowMs] = told;
    if (told.length >= mostTold) return oldest + this.windowMs - nowMs;
    this.#toldAt.set(key, [...told, nowMs]);
    return 0;
  }

  clear(): void {
    this.#toldAt.clear();
  }

  #forgetBefore(ms: number): void {
    for (const [key, told] of this.#toldAt) {
      const recent = told.filter((at) => at > ms);
      if (recent.length > 0) this.#toldAt.set(key, recent);
      else this.#toldAt.delete(key);
    }
  }
}
