// What waits for one client. A client that is too slow does not get everything: waiting events give way to a `reset`,
// which has it read everything again. Pure.

import { bytesOf, EventBuffer, type NumberedEvent } from "./event-buffer.ts";

export interface QueueBounds {
  readonly events: number;
  readonly bytes: number;
}

export class ClientQueue {
  readonly #waiting = new EventBuffer();

  constructor(private readonly bounds: QueueBounds) {}

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  add(event: NumberedEvent): void {
    this.#waiting.add(event);
    const { events, bytes } = this.bounds;
    if (this.#waiting.size > events || this.#waiting.bytes > bytes) this.reset(event.number);
  }

  /** Everything up to this number is missing. */
  reset(number: number): void {
    this.#waiting.clear();
    this.#waiting.add({ number, event: "reset", data: "{}", key: null });
  }

  /** Takes the first events: one at least, if one waits, and then as many as `bytes` allow. */
  take(bytes: number): NumberedEvent[] {
    const taken: NumberedEvent[] = [];
    for (let size = 0; size < bytes; ) {
      const event = this.#waiting.shift();
      if (!event) break;
      taken.push(event);
      size += bytesOf(event);
    }
    return taken;
  }
}
