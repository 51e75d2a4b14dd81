// The unfinished requests of one table and which of them wait for which. Pure bookkeeping: sending is the
// scheduler's.

import type { OutgoingRequest } from "./outgoing-request.ts";
import { ReadyQueue, type SchedulerShare } from "./scheduler-share.ts";

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
