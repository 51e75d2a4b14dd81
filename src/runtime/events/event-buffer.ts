// Events in their order, of which a later one with the same key takes the place of an earlier one. Pure.

/** An event with its number in the order of all of them. */
export interface NumberedEvent {
  readonly number: number;
  /** The name of the event. */
  readonly event: string;
  /** JSON. Made once, however many clients get it. */
  readonly data: string;
  /** What the event is about, where only the last event about it counts; null: each event counts. */
  readonly key: string | null;
}

/** What an event takes beside its data: the object, its key, its place. */
const overheadBytes = 200;

export class EventBuffer {
  /** In the order of the numbers: an event that takes another one's place goes to the end. */
  readonly #events = new Map<string | number, NumberedEvent>();
  #bytes = 0;

  get size(): number {
    return this.#events.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The number of `event` is above all others. */
  add(event: NumberedEvent): void {
    const key = event.key ?? event.number;
    const earlier = this.#events.get(key);
    if (earlier) this.#remove(key, earlier);
    this.#events.set(key, event);
    this.#bytes += bytesOf(event);
  }

  /** Removes the first event; null: there is none. */
  shift(): NumberedEvent | null {
    for (const [key, event] of this.#events) {
      this.#remove(key, event);
      return event;
    }
    return null;
  }

  clear(): void {
    this.#events.clear();
    this.#bytes = 0;
  }

  /** Those behind a number, in order. */
  after(number: number): NumberedEvent[] {
    return [...this.#events.values()].filter((event) => event.number > number);
  }

  #remove(key: string | number, event: NumberedEvent): void {
    this.#events.delete(key);
    this.#bytes -= bytesOf(event);
  }
}

/** What one event counts, against bounds in bytes. */
export function bytesOf({ data }: NumberedEvent): number {
  return Buffer.byteLength(data) + overheadBytes;
}
