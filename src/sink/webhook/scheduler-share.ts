// What of a scheduler's bounds is for one kind of requests: those of the stream, which nothing may keep waiting, and those of copies
// that are made beside it. Pure bookkeeping.

import type { OutgoingRequest } from "./outgoing-request.ts";
import type { Delivery } from "./request-lane.ts";

export interface ShareBounds {
  /** Body bytes of requests that are not delivered; one request may go above it. */
  readonly maxBytes: number;
  readonly maxRequests: number;
  readonly maxRows: number;
}

/** Deliveries of one table and share that are free to go. */
export class ReadyQueue {
  /** Oldest first; those that are tried again stand at the front. */
  readonly ready: Delivery[] = [];
  /** Deliveries that wait for their next attempt. */
  retrying = 0;
  /** It stands among the share's turns. */
  isQueued = false;

  constructor(readonly share: SchedulerShare) {}
}

export class SchedulerShare {
  /** Queues that have something ready, in turn. */
  readonly turns: ReadyQueue[] = [];
  inFlight = 0;
  #bytes = 0;
  #requests = 0;
  #rows = 0;
  #waiters: (() => void)[] = [];

  constructor(private readonly bounds: ShareBounds) {}

  get hasRoom(): boolean {
    const { maxBytes, maxRequests, maxRows } = this.bounds;
    return this.#bytes < maxBytes && this.#requests < maxRequests && this.#rows < maxRows;
  }

  /** A quarter of every bound is free: who waits for room is not woken for each request. */
  get hasAmpleRoom(): boolean {
    const { maxBytes, maxRequests, maxRows } = this.bounds;
    return (
      this.#bytes <= maxBytes * 0.75 && this.#requests <= maxRequests * 0.75 && this.#rows <= maxRows * 0.75
    );
  }

  add({ body, rows }: OutgoingRequest): void {
    this.#bytes += body.length;
    this.#requests++;
    this.#rows += rows;
  }

  remove({ body, rows }: OutgoingRequest): void {
    this.#bytes -= body.length;
    this.#requests--;
    this.#rows -= rows;
    if (this.#waiters.length > 0 && this.hasAmpleRoom) this.wake();
  }

  /** Resolves when something has been delivered and there is ample room, or when it is woken. */
  async change(): Promise<void> {
    await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }

  wake(): void {
    for (const wake of this.#waiters.splice(0)) wake();
  }
}
