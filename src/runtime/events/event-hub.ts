// Hands each event to all clients that follow. A client takes events when it can; nobody waits for it, and what waits
// for it is bounded.

import type { EventFollower, EventService, FollowedEvent } from "../../api/services.ts";
import type { ServiceEvent } from "../../connector/service/service-event.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { ClientQueue, type QueueBounds } from "./client-queue.ts";
import type { NumberedEvent } from "./event-buffer.ts";
import { EventLog, type EventLogBounds } from "./event-log.ts";

/** The most clients at once: each holds a connection, and may hold its bound of memory. */
const maxClients = 100;
const logBounds: EventLogBounds = { events: 1_000, bytes: 4_194_304 };
const queueBounds: QueueBounds = { events: 1_000, bytes: 1_048_576 };
/** A client is handed about so much at once. */
const portionBytes = 65_536;

export class EventHub implements EventService, Disposable {
  readonly #log: EventLog;
  readonly #clients = new Set<Client>();
  #isClosed = false;

  /** @param boot another one in each life of the service: letters and digits */
  constructor(boot: string) {
    this.#log = new EventLog(boot, logBounds);
  }

  /** How many clients follow now. */
  get clientCount(): number {
    return this.#clients.size;
  }

  /**
   * Neither blocks nor throws.
   *
   * @param key what the event is about, where only the last event about it counts
   */
  publish({ event, data }: ServiceEvent, key: string | null): void {
    if (this.#isClosed) return;
    const added = this.#log.add(event, JSON.stringify(data), key);
    for (const client of this.#clients) client.tell(added);
  }

  /** Something has happened that is not known: all clients read everything again, and so do those that come back. */
  reset(): void {
    if (this.#isClosed) return;
    const number = this.#log.interrupt();
    for (const client of this.#clients) client.reset(number);
  }

  follow(lastEventId: string | null): EventFollower {
    if (this.#isClosed) throw new MillraceError("state_unavailable", "The service is stopping.");
    if (this.#clients.size >= maxClients) {
      throw new MillraceError("too_many_clients", `${maxClients} clients follow the events already.`);
    }
    const missed = lastEventId === null ? [] : this.#log.since(lastEventId);
    const client = new Client(
      // Not of one that resumes: should its connection break before it has what it missed, it would never get that.
      lastEventId === null ? this.#log.idOf(this.#log.last) : null,
      (number) => this.#log.idOf(number),
      () => this.#clients.delete(client),
    );
    this.#clients.add(client);
    if (missed === null) client.reset(this.#log.last);
    else for (const event of missed) client.tell(event);
    return client;
  }

  /** Ends all clients' streams, and takes no more. */
  [Symbol.dispose](): void {
    this.#isClosed = true;
    for (const client of [...this.#clients]) client.close();
  }
}

class Client implements EventFollower {
  readonly #queue = new ClientQueue(queueBounds);
  #isClosed = false;
  /** Ends the wait of `next`. */
  #wake: (() => void) | null = null;

  constructor(
    readonly position: string | null,
    private readonly idOf: (number: number) => string,
    private readonly onClosed: () => void,
  ) {}

  tell(event: NumberedEvent): void {
    this.#queue.add(event);
    this.#wake?.();
  }

  reset(number: number): void {
    this.#queue.reset(number);
    this.#wake?.();
  }

  async next(withinMs: number): Promise<readonly FollowedEvent[] | null> {
    if (this.#queue.isEmpty && !this.#isClosed) await this.#untilTold(withinMs);
    if (this.#isClosed) return null;
    return this.#queue.take(portionBytes).map(({ number, event, data }) => {
      return { id: this.idOf(number), event, data };
    });
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.onClosed();
    this.#wake?.();
  }

  #untilTold(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#wake?.(), withinMs);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = null;
        resolve();
      };
    });
  }
}
