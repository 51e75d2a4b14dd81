// Sends many requests side by side: those of one table that share a row one after the other, all others as
// they come. A request that fails waits for its next attempt without holding up those that need not wait
// for it. What copies send beside the stream has a share of its own, so that no change waits for it.

import { MillraceError } from "../../../errors/millrace-error.ts";
import { letGoOfBody } from "../../format/values/message-body.ts";
import { type Attempt, describeRequest } from "../../webhook/sender.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import { decideRetry, type RetryPolicy } from "./backoff.ts";
import { Delivery, type ReadyQueue, RequestLane, SchedulerShare, type ShareBounds } from "./request-lane.ts";

export interface SchedulerOptions extends ShareBounds {
  readonly retry: RetryPolicy;
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
  /** The largest number of failed attempts of a request now; null: none is being retried any more. */
  retrying(attempt: number | null, reason: string): void;
  /** Called once: a request can never be delivered, or its retries ended. Nothing is sent afterwards. */
  failed(error: MillraceError): void;
}

/** Of each bound, what requests beside the stream may take in addition. */
const besideShare = 0.25;
/** Of the attempts under way, those of requests beside the stream: so many at most, and so many before those of the stream. */
const mostBeside = 0.25;
const leastBeside = 0.0625;

export class Scheduler {
  readonly #lanes = new Map<string, RequestLane>();
  readonly #stream: SchedulerShare;
  readonly #beside: SchedulerShare;
  readonly #stop = new AbortController();
  readonly #retrying = new Map<Delivery, number>();
  /** Attempts that were told last: when a receiver is away each request fails, and one word of it is enough. */
  #toldAttempts = 0;
  #draining = false;
  #failed = false;
  #quietWaiters: (() => void)[] = [];

  constructor(
    private readonly attempt: Attempt,
    private readonly options: SchedulerOptions,
    private readonly events: SchedulerEvents,
  ) {
    const { maxBytes, maxRequests, maxRows } = options;
    this.#stream = new SchedulerShare(options);
    this.#beside = new SchedulerShare({
      maxBytes: maxBytes * besideShare,
      maxRequests: Math.max(1, maxRequests * besideShare),
      maxRows: Math.max(1, maxRows * besideShare),
    });
  }

  get hasRoom(): boolean {
    return this.#stream.hasRoom;
  }

  /** The same for requests beside the stream. */
  get hasRoomBeside(): boolean {
    return this.#beside.hasRoom;
  }

  /** Nothing is sent any more. */
  get isOver(): boolean {
    return this.#failed || this.#draining;
  }

  /** Resolves when there is ample room, or when nothing is sent any more. */
  async room(): Promise<void> {
    while (!this.#stream.hasAmpleRoom && !this.isOver) await this.#stream.change();
  }

  /** The same for requests beside the stream. */
  async roomBeside(): Promise<void> {
    while (!this.#beside.hasRoom && !this.isOver) await this.#beside.change();
  }

  /**
   * Takes a request behind all earlier ones of its table. `held`: it is not sent before `release`, nor are
   * those that have to wait for it. `isBeside`: it is none of the stream's.
   */
  submit(request: OutgoingRequest, onDelivered: () => void, held = false, isBeside = false): Delivery {
    const name = `${request.schema}\0${request.table}`;
    let lane = this.#lanes.get(name);
    if (!lane) {
      lane = new RequestLane({ stream: this.#stream, beside: this.#beside });
      this.#lanes.set(name, lane);
    }
    const delivery = new Delivery(request, lane, isBeside ? lane.beside : lane.stream, onDelivered);
    if (held) delivery.waits = 1;
    lane.add(delivery);
    delivery.share.add(request);
    if (delivery.waits === 0) this.#makeReady(delivery);
    else if (!isBeside) {
      // What it waits for may have become one of the stream's.
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
      await new Promise<void>((resolve) => this.#quietWaiters.push(resolve));
    }
    signal.removeEventListener("abort", stop);
    this.#stop.abort(new Error("stopped"));
  }

  get #inFlight(): number {
    return this.#stream.inFlight + this.#beside.inFlight;
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
    queue.share.turns.push(queue);
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
    const { inFlight, turns } = this.#beside;
    if (turns.length > 0 && inFlight < Math.max(1, maxInFlight * leastBeside)) return turns.shift();
    const next = this.#stream.turns.shift();
    return next ?? (inFlight < maxInFlight * mostBeside ? turns.shift() : undefined);
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
      // An attempt throws only when it was stopped; anything else is a fault of ours and must not be lost.
      if (!this.#stop.signal.aborted) {
        this.#fail(new MillraceError("internal", "sending failed unexpectedly", { cause: error }));
      }
    } finally {
      delivery.share.inFlight--;
      if (this.#inFlight === 0) this.#wake(this.#quietWaiters);
      this.#pump();
    }
  }

  #finish(delivery: Delivery): void {
    const { lane } = delivery;
    if (this.#retrying.delete(delivery)) this.#noteRecovery();
    for (const freed of lane.finish(delivery)) freed.queue.ready.push(freed);
    this.#queue(lane.stream);
    this.#queue(lane.beside);
    if (lane.isEmpty) this.#lanes.delete(`${delivery.request.schema}\0${delivery.request.table}`);
    delivery.onDelivered();
    delivery.share.remove(delivery.request);
    // The HTTP client sends a copy of its own; here nobody reads it any more.
    letGoOfBody(delivery.request.body);
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
      this.#fail(new MillraceError("webhook_retries_exhausted", text));
      return;
    }
    this.#retrying.set(delivery, delivery.attempts);
    this.#noteRetry(reason);
    void this.#waitAndRetry(delivery, decision.delayMs);
  }

  get #mostAttempts(): number {
    return Math.max(0, ...this.#retrying.values());
  }

  #noteRetry(reason: string): void {
    const attempts = this.#mostAttempts;
    if (attempts <= this.#toldAttempts) return;
    this.#toldAttempts = attempts;
    this.events.retrying(attempts, reason);
  }

  #noteRecovery(): void {
    this.#toldAttempts = Math.min(this.#toldAttempts, this.#mostAttempts);
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
    // It may be waited for by now, as one of the stream's.
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
    this.#beside.wake();
  }

  #wake(waiters: (() => void)[]): void {
    for (const wake of waiters.splice(0)) wake();
  }
}
