// The unfinished requests of one table, and which of them wait for which. Also the share of the scheduler's bounds that the stream has,
// and the one that incremental copies have. Bookkeeping alone: the scheduler sends.

import { Waiters } from "../../../concurrency/waiters.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import type { RequestWork } from "./request-work.ts";

export interface ShareBounds {
  /** Body bytes of requests that are not delivered; one request may go above it. */
  readonly maxBytes: number;
  readonly maxRequests: number;
  readonly maxRows: number;
}

/** Deliveries of one table and share that can be sent now. */
export class ReadyQueue {
  /** Oldest first; those that are tried again come before. */
  readonly ready: Delivery[] = [];
  /** Deliveries that wait for their next attempt. */
  retrying = 0;
  /** It is among the share's queues. */
  isQueued = false;

  constructor(readonly share: SchedulerShare) {}
}

export class SchedulerShare {
  /** Queues that have something ready. They are served round-robin. */
  readonly queues: ReadyQueue[] = [];
  inFlight = 0;
  #bytes = 0;
  #requests = 0;
  #rows = 0;
  readonly #waiters = new Waiters();

  constructor(private readonly bounds: ShareBounds) {}

  get hasCapacity(): boolean {
    const { maxBytes, maxRequests, maxRows } = this.bounds;
    return this.#bytes < maxBytes && this.#requests < maxRequests && this.#rows < maxRows;
  }

  /** A quarter of every bound is free. Who waits for capacity is not woken for each request. */
  get hasAmpleCapacity(): boolean {
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
    if (this.#waiters.areAny && this.hasAmpleCapacity) this.wake();
  }

  /** Resolves when something was delivered and a quarter of every bound is free, or when it is woken. */
  async change(): Promise<void> {
    await this.#waiters.change();
  }

  wake(): void {
    this.#waiters.wake();
  }
}

/** A request on its way. */
export class Delivery {
  /** How many things must happen before the first attempt: earlier requests finish, a boundary is recorded. */
  waits = 0;
  readonly dependants: Delivery[] = [];
  finished = false;
  attempts = 0;
  /** When the first attempt failed, by the monotonic clock. */
  firstFailureMs = 0;
  /** What is left of it; null: all, as one request. */
  work: RequestWork | null = null;

  constructor(
    readonly request: OutgoingRequest,
    readonly lane: RequestLane,
    /** The queue that sends it. */
    public queue: ReadyQueue,
    readonly onDelivered: () => void,
  ) {
    this.share = queue.share;
  }

  /** Which bounds it counts against, whichever queue sends it. */
  readonly share: SchedulerShare;
}

export class RequestLane {
  readonly stream: ReadyQueue;
  readonly copies: ReadyQueue;
  readonly #unfinished = new Set<Delivery>();
  /** For each key, the last delivery that touches it. */
  readonly #last = new Map<number, Delivery>();
  #barrier: Delivery | null = null;

  constructor(shares: { readonly stream: SchedulerShare; readonly copies: SchedulerShare }) {
    this.stream = new ReadyQueue(shares.stream);
    this.copies = new ReadyQueue(shares.copies);
  }

  get isEmpty(): boolean {
    return this.#unfinished.size === 0;
  }

  /** Oldest first. */
  touching(hash: number): readonly Delivery[] {
    // Of a barrier, not all rows have a hash.
    return [...this.#unfinished].filter(({ request }) => request.barrier || request.touches.includes(hash));
  }

  /** Adds a delivery after all earlier ones, and counts what it has to wait for. */
  add(delivery: Delivery): void {
    const { request } = delivery;
    if (!request.barrier && !this.#barrier && request.touches.length === 1) {
      this.#addSingle(delivery, request.touches[0]!);
      return;
    }
    const before = new Set<Delivery>();
    if (request.barrier) for (const earlier of this.#unfinished) before.add(earlier);
    else if (this.#barrier) before.add(this.#barrier);
    for (const key of request.touches) {
      const earlier = this.#last.get(key);
      if (earlier && earlier !== delivery) before.add(earlier);
      this.#last.set(key, delivery);
    }
    if (request.barrier) this.#barrier = delivery;
    for (const earlier of before) this.#addDependency(delivery, earlier);
    delivery.waits += before.size;
    this.#unfinished.add(delivery);
  }

  /** The case of a request with one row, with less work. */
  #addSingle(delivery: Delivery, key: number): void {
    const earlier = this.#last.get(key);
    if (earlier) {
      this.#addDependency(delivery, earlier);
      delivery.waits++;
    }
    this.#last.set(key, delivery);
    this.#unfinished.add(delivery);
  }

  /** A request of a copy that a change of the stream waits for is sent by the stream's queue. */
  #addDependency(delivery: Delivery, earlier: Delivery): void {
    earlier.dependants.push(delivery);
    if (earlier.queue !== this.copies || delivery.queue === this.copies) return;
    earlier.queue = this.stream;
    const at = this.copies.ready.indexOf(earlier);
    if (at < 0) return;
    this.copies.ready.splice(at, 1);
    this.stream.ready.unshift(earlier);
  }

  /** Ends a delivery; returns those that waited for nothing else. */
  finish(delivery: Delivery): Delivery[] {
    delivery.finished = true;
    this.#unfinished.delete(delivery);
    if (this.#barrier === delivery) this.#barrier = null;
    for (const key of delivery.request.touches) {
      if (this.#last.get(key) === delivery) this.#last.delete(key);
    }
    const freed: Delivery[] = [];
    for (const dependant of delivery.dependants) if (--dependant.waits === 0) freed.push(dependant);
    return freed;
  }
}
