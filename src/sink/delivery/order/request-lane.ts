// The unfinished requests of one table and which of them wait for which, and what of a scheduler's bounds is for one kind of
// requests: those of the stream, which nothing may keep waiting, and those of copies. Pure bookkeeping: sending is the scheduler's.

import type { OutgoingRequest } from "../stream/outgoing-request.ts";

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

/** A request on its way. */
export class Delivery {
  /** What must happen before the first attempt: earlier requests to finish, a boundary to be recorded. */
  waits = 0;
  readonly dependants: Delivery[] = [];
  finished = false;
  attempts = 0;
  /** When the first attempt failed, by the monotonic clock. */
  firstFailureMs = 0;

  constructor(
    readonly request: OutgoingRequest,
    readonly lane: RequestLane,
    /** Where it goes when it is ready. */
    public queue: ReadyQueue,
    readonly onDelivered: () => void,
  ) {
    this.share = queue.share;
  }

  /** What it counts among, wherever it goes. */
  readonly share: SchedulerShare;
}

export class RequestLane {
  readonly stream: ReadyQueue;
  readonly beside: ReadyQueue;
  readonly #unfinished = new Set<Delivery>();
  /** For each key, the last delivery that touches it. */
  readonly #last = new Map<number, Delivery>();
  #barrier: Delivery | null = null;

  constructor(shares: { readonly stream: SchedulerShare; readonly beside: SchedulerShare }) {
    this.stream = new ReadyQueue(shares.stream);
    this.beside = new ReadyQueue(shares.beside);
  }

  get isEmpty(): boolean {
    return this.#unfinished.size === 0;
  }

  /** Adds a delivery behind all earlier ones and counts what it has to wait for. */
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
    for (const earlier of before) this.#letWait(delivery, earlier);
    delivery.waits += before.size;
    this.#unfinished.add(delivery);
  }

  /** The case of one row without batching, with less work. */
  #addSingle(delivery: Delivery, key: number): void {
    const earlier = this.#last.get(key);
    if (earlier) {
      this.#letWait(delivery, earlier);
      delivery.waits++;
    }
    this.#last.set(key, delivery);
    this.#unfinished.add(delivery);
  }

  /** What a change of the stream waits for goes with the stream's. */
  #letWait(delivery: Delivery, earlier: Delivery): void {
    earlier.dependants.push(delivery);
    if (earlier.queue !== this.beside || delivery.queue === this.beside) return;
    earlier.queue = this.stream;
    const at = this.beside.ready.indexOf(earlier);
    if (at < 0) return;
    this.beside.ready.splice(at, 1);
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
