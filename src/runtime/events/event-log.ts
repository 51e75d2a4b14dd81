// The last events, so that a client that was away goes on where it was. Bounded in number and bytes. Pure.

import { EventBuffer, type NumberedEvent } from "./event-buffer.ts";

export interface EventLogBounds {
  readonly events: number;
  readonly bytes: number;
}

export class EventLog {
  readonly #kept = new EventBuffer();
  #last = 0;
  /** The last event that had to go. Events whose place a later one has taken are not missed. */
  #gone = 0;

  /** @param boot tells this life of the service from others: its numbers begin again. Letters and digits. */
  constructor(
    private readonly boot: string,
    private readonly bounds: EventLogBounds,
  ) {}

  /** The number of the last event; 0: there was none. */
  get last(): number {
    return this.#last;
  }

  add(event: string, data: string, key: string | null): NumberedEvent {
    const added = { number: ++this.#last, event, data, key };
    this.#kept.add(added);
    while (this.#kept.size > this.bounds.events || this.#kept.bytes > this.bounds.bytes)
      this.#gone = this.#kept.shift()?.number ?? this.#last;
    return added;
  }

  /** Something has happened that is not known: whoever resumes from before has missed it. Returns its number. */
  interrupt(): number {
    this.#kept.clear();
    this.#gone = ++this.#last;
    return this.#last;
  }

  /** The id of an event, for clients. */
  idOf(number: number): string {
    return `${this.boot}-${number}`;
  }

  /** What has happened since the event of this id; null: that is not known any more, or never was. */
  since(id: string): NumberedEvent[] | null {
    const [boot, digits = "", ...more] = id.split("-");
    if (boot !== this.boot || more.length > 0 || !/^\d{1,15}$/.test(digits)) return null;
    const number = Number(digits);
    return number < this.#gone || number > this.#last ? null : this.#kept.after(number);
  }
}
