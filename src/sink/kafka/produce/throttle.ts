// Which brokers have asked to be left alone for a while, as a quota is used up. What is sent to one before that time lies there unread, and
// would look as if the broker were silent. Pure.
// https://cwiki.apache.org/confluence/display/KAFKA/KIP-219+-+Improve+quota+communication

export class Throttle {
  readonly #untilMs = new Map<number, number>();

  /** A broker has answered, and asked to wait for so long. */
  asked(broker: number, throttleMs: number, nowMs: number): void {
    if (throttleMs > 0) this.#untilMs.set(broker, nowMs + throttleMs);
  }

  /** How long to wait for the broker. */
  waitMs(broker: number, nowMs: number): number {
    return Math.max(0, (this.#untilMs.get(broker) ?? nowMs) - nowMs);
  }

  /** The broker that is to be waited for the longest; null: none is. */
  slowest(nowMs: number): number | null {
    let slowest: number | null = null;
    for (const [broker, untilMs] of this.#untilMs)
      if (untilMs > (slowest === null ? nowMs : this.#untilMs.get(slowest)!)) slowest = broker;
    return slowest;
  }
}
