// Sends many requests at once. Requests of one table that share a row are sent one after the other. A request that fails waits for its
// next attempt, and only those that share a row with it wait too. Incremental copies have a share of their own, so that no change of
// the stream waits for them.

import type { ErrorCode } from "../../../errors/error-codes.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { releaseBody } from "../../format/values/message-body.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import { type Attempt, describeRequest } from "./attempt.ts";
import { decideRetry, type RetryPolicy } from "./backoff.ts";
import { Delivery, type ReadyQueue, RequestLane, SchedulerShare, type ShareBounds } from "./request-lane.ts";

export interface SchedulerOptions extends ShareBounds {
  readonly retry: RetryPolicy;
  /** Of the failure when a request's retries end. */
  readonly retriesExhausted: ErrorCode;
  /** Attempts under way at once. */
  readonly maxInFlight: number;
  /** Requests of one table that wait for another attempt, before no new one of it is begun. */
  readonly maxRetryingPerTable: number;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly random: () => number;
}

export interface SchedulerEvents {
  /** The largest number of failed attempts of a request now, and when its next follows; null: none is being retried any more. */
  retrying(attempt: number | null, reason: string, inMs?: number): void;
  /** Called once: a request can never be delivered, or its retries ended. Nothing is sent afterwards. */
  failed(error: MillraceError): void;
}

/** What incremental copies may take in addition, of each bound. */
const copyShare = 0.25;
/** The share of attempts that incremental copies have at most, and the one that they have even before requests of the stream. */
const mostCopyAttempts = 0.25;
const leastCopyAttempts = 0.0625;

export class Scheduler {
  readonly #lanes = new Map<string, RequestLane>();
  readonly #stream: SchedulerShare;
  readonly #copies: SchedulerShare;
  readonly #stop = new AbortController();
  readonly #retrying = new Map<Delivery, number>();
  /** The number that was reported last: when a receiver is away every request fails, and one report is enough. */
  #reportedAttempts = 0;
  #draining = false;
  #failed = false;
  #drainWaiters: (() => void)[] = [];

  constructor(
    private readonly attempt: Attempt,
    private readonly options: SchedulerOptions,
    private readonly events: SchedulerEvents,
  ) {
    const { maxBytes, maxRequests, maxRows } = options;
    this.#stream = new SchedulerShare(options);
    this.#copies = new SchedulerShare({
      maxBytes: maxBytes * copyShare,
      maxRequests: Math.max(1, maxRequests * copyShare),
      maxRows: Math.max(1, maxRows * copyShare),
    });
  }

  get hasCapacity(): boolean {
    return this.#stream.hasCapacity;
  }

  /** The same for incremental copies. */
  get hasCopyCapacity(): boolean {
    return this.#copies.hasCapacity;
  }

  /** Nothing is sent any more. */
  get isOver(): boolean {
    return this.#failed || this.#draining;
  }

  /** Resolves when a quarter of every bound is free, or when nothing is sent any more. */
  async untilCapacity(): Promise<void> {
    while (!this.#stream.hasAmpleCapacity && !this.isOver) await this.#stream.change();
  }

  /** Resolves when incremental copies have capacity, or when nothing is sent any more. */
  async untilCopyCapacity(): Promise<void> {
    while (!this.#copies.hasCapacity && !this.isOver) await this.#copies.change();
  }

  /**
   * Takes a request after all earlier ones of its table. `isBlocked`: it is sent after `release`, and so are those that wait for it.
   * `isOfCopy`: it is one of an incremental copy.
   */
  submit(request: OutgoingRequest, onDelivered: () => void, isBlocked = false, isOfCopy = false): Delivery {
    const name = `${request.schema}\0${request.table}`;
    let lane = this.#lanes.get(name);
    if (!lane) {
      lane = new RequestLane({ stream: this.#stream, copies: this.#copies });
      this.#lanes.set(name, lane);
    }
    const delivery = new Delivery(request, lane, isOfCopy ? lane.copies : lane.stream, onDelivered);
    if (isBlocked) delivery.waits = 1;
    lane.add(delivery);
    delivery.share.add(request);
    if (delivery.waits === 0) this.#makeReady(delivery);
    else if (!isOfCopy) {
      // What it waits for may count as one of the stream's from now on.
      this.#queue(lane.stream);
      this.#pump();
    }
    return delivery;
  }

  release(delivery: Delivery): void {
    if (--delivery.waits === 0) this.#makeReady(delivery);
  }

  /** Begins no new attempt, and returns when those under way have ended, or when `signal` aborts them. */
  async drain(signal: AbortSignal): Promise<void> {
    this.#draining = true;
    this.#wakeAll();
    const stop = () => this.#stop.abort(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    while (this.#inFlight > 0) {
      await new Promise<void>((resolve) => this.#drainWaiters.push(resolve));
    }
    signal.removeEventListener("abort", stop);
    this.#stop.abort(new Error("stopped"));
  }

  get #inFlight(): number {
    return this.#stream.inFlight + this.#copies.inFlight;
  }

  #makeReady(delivery: Delivery): void {
    delivery.queue.ready.push(delivery);
    this.#queue(delivery.queue);
    this.#pump();
  }

  #queue(queue: ReadyQueue): void {
    const { ready, retrying } = queue;
    if (queue.isQueued || ready.length === 0) return;
    if (retrying >= this.options.maxRetryingPerTable && ready[0]!.attempts === 0) return;
    queue.isQueued = true;
    queue.share.queues.push(queue);
  }

  #pump(): void {
    while (!this.isOver && this.#inFlight < this.options.maxInFlight) {
      const queue = this.#next();
      if (!queue) return;
      queue.isQueued = false;
      const delivery = queue.ready.shift();
      if (!delivery) continue;
      this.#queue(queue);
      void this.#run(delivery);
    }
  }

  #next(): ReadyQueue | undefined {
    const { maxInFlight } = this.options;
    const { inFlight, queues } = this.#copies;
    if (queues.length > 0 && inFlight < Math.max(1, maxInFlight * leastCopyAttempts)) return queues.shift();
    const next = this.#stream.queues.shift();
    return next ?? (inFlight < maxInFlight * mostCopyAttempts ? queues.shift() : undefined);
  }

  async #run(delivery: Delivery): Promise<void> {
    delivery.share.inFlight++;
    try {
      const outcome = await this.attempt(delivery.request, this.#stop.signal);
      switch (outcome.kind) {
        case "delivered":
          this.#finish(delivery);
          break;
        case "rejected":
          this.#fail(outcome.error);
          break;
        case "retry":
          this.#scheduleRetry(delivery, outcome.reason, outcome.retryAfterMs);
          break;
        default:
          outcome satisfies never;
      }
    } catch (error) {
      // An attempt throws only when it was stopped. Anything else is our own fault, and must not be lost.
      if (!this.#stop.signal.aborted) {
        this.#fail(new MillraceError("internal", "sending failed unexpectedly", { cause: error }));
      }
    } finally {
      delivery.share.inFlight--;
      if (this.#inFlight === 0) this.#wake(this.#drainWaiters);
      this.#pump();
    }
  }

  #finish(delivery: Delivery): void {
    const { lane } = delivery;
    if (this.#retrying.delete(delivery)) this.#reportRecovery();
    for (const freed of lane.finish(delivery)) freed.queue.ready.push(freed);
    this.#queue(lane.stream);
    this.#queue(lane.copies);
    if (lane.isEmpty) this.#lanes.delete(`${delivery.request.schema}\0${delivery.request.table}`);
    delivery.onDelivered();
    delivery.share.remove(delivery.request);
    // The transport sends a copy of its own, so nobody reads the body any more.
    releaseBody(delivery.request.body);
  }

  #scheduleRetry(delivery: Delivery, reason: string, retryAfterMs: number): void {
    const now = this.options.monotonic();
    if (delivery.attempts === 0) delivery.firstFailureMs = now;
    delivery.attempts++;
    const decision = decideRetry(this.options.retry, {
      attempts: delivery.attempts,
      elapsedMs: now - delivery.firstFailureMs,
      retryAfterMs,
      random: this.options.random(),
    });
    if (decision.kind === "exhausted") {
      const what = `${describeRequest(delivery.request)} was not delivered after ${delivery.attempts} attempts`;
      const text = `${what} (${decision.limit}): ${reason}. Start the connector again to go on with it`;
      const { schema, table: name } = delivery.request;
      const table = { schema, name, commands: [] };
      this.#fail(new MillraceError(this.options.retriesExhausted, text, { table }));
      return;
    }
    this.#retrying.set(delivery, delivery.attempts);
    this.#reportRetry(reason, decision.delayMs);
    void this.#waitAndRetry(delivery, decision.delayMs);
  }

  get #mostAttempts(): number {
    return Math.max(0, ...this.#retrying.values());
  }

  #reportRetry(reason: string, inMs: number): void {
    const attempts = this.#mostAttempts;
    if (attempts <= this.#reportedAttempts) return;
    this.#reportedAttempts = attempts;
    this.events.retrying(attempts, reason, inMs);
  }

  #reportRecovery(): void {
    this.#reportedAttempts = Math.min(this.#reportedAttempts, this.#mostAttempts);
    if (this.#retrying.size === 0) this.events.retrying(null, "");
  }

  async #waitAndRetry(delivery: Delivery, delayMs: number): Promise<void> {
    const { queue } = delivery;
    queue.retrying++;
    try {
      await this.options.sleep(delayMs, this.#stop.signal);
    } catch {
      return;
    } finally {
      queue.retrying--;
    }
    // A change may wait for it by now: then it counts as one of the stream's.
    delivery.queue.ready.unshift(delivery);
    this.#queue(queue);
    this.#queue(delivery.queue);
    this.#pump();
  }

  #fail(error: MillraceError): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#stop.abort(error);
    this.#wakeAll();
    this.events.failed(error);
  }

  #wakeAll(): void {
    this.#stream.wake();
    this.#copies.wake();
  }

  #wake(waiters: (() => void)[]): void {
    for (const wake of waiters.splice(0)) wake();
  }
}
