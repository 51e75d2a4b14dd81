// Throttles the history of a flapping status. A sink that fails now and then turns a status from healthy to retrying
// and back, maybe many times a second. Each transition is recorded a few times; after that, only the status that lasts.
// Pure.

import type { HistoryComponent, Status } from "../../connector/status.ts";

const maxRecorded = 3;

export class StatusThrottle {
  /** By transition: when it was recorded, in milliseconds, within the window. */
  readonly #recordedAt = new Map<string, readonly number[]>();

  constructor(private readonly windowMs: number) {}

  /** 0: record the status now, and count it; otherwise the milliseconds until it may be recorded. */
  waitMs(component: HistoryComponent, { state, status }: Status, nowMs: number): number {
    const transition = status.retry ? "retry" : status.heartbeat ? "heartbeat" : null;
    if (transition === null) return 0;
    this.#removeBefore(nowMs - this.windowMs);
    // Without attempt and reason, which differ each time.
    const key = `${component} ${transition} ${JSON.stringify(state)}`;
    const recorded = this.#recordedAt.get(key) ?? [];
    const [oldest = nowMs] = recorded;
    if (recorded.length >= maxRecorded) return oldest + this.windowMs - nowMs;
    this.#recordedAt.set(key, [...recorded, nowMs]);
    return 0;
  }

  clear(): void {
    this.#recordedAt.clear();
  }

  #removeBefore(ms: number): void {
    for (const [key, recorded] of this.#recordedAt) {
      const recent = recorded.filter((at) => at > ms);
      if (recent.length > 0) this.#recordedAt.set(key, recent);
      else this.#recordedAt.delete(key);
    }
  }
}
