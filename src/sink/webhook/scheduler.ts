// Sends many requests side by side: those of one table that share a row one after the other, all others as
// they come. A request that fails waits for its next attempt without holding up those that need not wait
// for it.

import { MillraceError } from "../../errors/millrace-error.ts";
import { decideRetry, type RetryPolicy } from "./backoff.ts";
import type { OutgoingRequest } from "./outgoing-request.ts";
import { letGoOfBody } from "./request-body.ts";
import { Delivery, RequestLane } from "./request-lane.ts";
import { type Attempt, describeRequest } from "./sender.ts";

export interface SchedulerOptions {
  readonly retry: RetryPolicy;
  /** Attempts under way at once. */
  readonly maxInFlight: number;
  /** Body bytes of requests that are not delivered; one request may go above it. */
  readonly maxBytes: number;
  readonly maxRequests: number;
  readonly maxRows: number;
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

export class Scheduler {
  readonly #lanes = new Map<string, RequestLane>();
  /** Lanes that have something ready, in turn. */
  readonly #turns: RequestLane[] = [];
  readonly #stop = new AbortController();
  readonly #retrying = new Map<Delivery, number>();
  #inFlight = 0;
  #bytes = 0;
  #requests = 0;
  #rows = 0;
  #draining = false;
  #failed = false;
  #roomWaiters: (() => void)[] = [];
  #quietWaiters: (() => void)[] = [];

  constructor(
    private readonly attempt: Attempt,
    private readonly options: SchedulerOptions,
    private readonly events: SchedulerEvents,
  ) {}

  get hasRoom(): boolean {
    const { maxBytes, maxRequests, maxRows } = this.options;
    return this.#bytes < maxBytes && this.#requests < maxRequests && this.#rows < maxRows;
  }

  /** A quarter of every bound is free: who waits for room is not woken for each request. */
  get #hasAmpleRoom(): boolean {
    const { maxBytes, maxRequests, maxRows } = this.options;
    return (
      this.#bytes <= maxBytes * 0.75 && this.#requests <= maxRequests * 0.75 && this.#rows <= maxRows * 0.75
    );
  }

  /** Resolves when there is ample room, or when nothing is sent any more. */
  async room(): Promise<void> {
    while (!this.#hasAmpleRoom && !this.#failed && !this.#draining) {
      await new Promise<void>((resolve) => this.#roomWaiters.push(resolve));
    }
  }

  /**
   * Takes a request behind all earlier ones of its table. `held`: it is not sent before `release`, nor are
   * those that have to wait for it.
   */
  submit(request: OutgoingRequest, onDelivered: () => void, held = false): Delivery {
    const name = `${request.schema}\0${request.table}`;
    let lane = this.#lanes.get(name);
    if (!lane) {
      lane = new RequestLane();
      this.#lanes.set(name, lane);
    }
    const delivery = new Delivery(request, lane, onDelivered);
    if (held) delivery.waits = 1;
    lane.add(delivery);
    this.#bytes += request.body.length;
    this.#requests++;
    this.#rows += request.rows;
    if (delivery.waits === 0) this.#makeReady(delivery);
    return delivery;
  }

  release(delivery: Delivery): void {
    if (--delivery.waits === 0) this.#makeReady(delivery);
  }

  /** Begins no new attempt, and returns when those under way have ended, or when `signal` aborts them. */
  async drain(signal: AbortSignal): Promise<void> {
    this.#draining = true;
    this.#wake(this.#roomWaiters);
    const stop = () => this.#stop.abort(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    while (this.#inFlight > 0) {
      await new Promise<void>((resolve) => this.#quietWaiters.push(resolve));
    }
    signal.removeEventListener("abort", stop);
    this.#stop.abort(new Error("stopped"));
  }

  #makeReady(delivery: Delivery): void {
    delivery.lane.ready.push(delivery);
    this.#queue(delivery.lane);
    this.#pump();
  }

  #queue(lane: RequestLane): void {
    if (lane.queued || lane.ready.length === 0) return;
    if (lane.retrying >= this.options.maxRetryingPerTable && lane.ready[0]!.attempts === 0) return;
    lane.queued = true;
    this.#turns.push(lane);
  }

  #pump(): void {
    while (!this.#draining && !this.#failed && this.#inFlight < this.options.maxInFlight) {
      const lane = this.#turns.shift();
      if (!lane) return;
      lane.queued = false;
      const delivery = lane.ready.shift();
      if (!delivery) continue;
      this.#queue(lane);
      void this.#run(delivery);
    }
  }

  async #run(delivery: Delivery): Promise<void> {
    this.#inFlight++;
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
      this.#inFlight--;
      if (this.#inFlight === 0) this.#wake(this.#quietWaiters);
      this.#pump();
    }
  }

  #finish(delivery: Delivery): void {
    const { lane } = delivery;
    if (this.#retrying.delete(delivery) && this.#retrying.size === 0) this.events.retrying(null, "");
    this.#bytes -= delivery.request.body.length;
    this.#requests--;
    this.#rows -= delivery.request.rows;
    for (const freed of lane.finish(delivery)) lane.ready.push(freed);
    this.#queue(lane);
    if (lane.isEmpty) this.#lanes.delete(`${delivery.request.schema}\0${delivery.request.table}`);
    delivery.onDelivered();
    // The HTTP client sends a copy of its own; here nobody reads it any more.
    letGoOfBody(delivery.request.body);
    if (this.#roomWaiters.length > 0 && this.#hasAmpleRoom) this.#wake(this.#roomWaiters);
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
    this.events.retrying(Math.max(...this.#retrying.values()), reason);
    void this.#waitAndRetry(delivery, decision.delayMs);
  }

  async #waitAndRetry(delivery: Delivery, delayMs: number): Promise<void> {
    const { lane } = delivery;
    lane.retrying++;
    try {
      await this.options.sleep(delayMs, this.#stop.signal);
    } catch {
      return;
    } finally {
      lane.retrying--;
    }
    lane.ready.unshift(delivery);
    this.#queue(lane);
    this.#pump();
  }

  #fail(error: MillraceError): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#stop.abort(error);
    this.#wake(this.#roomWaiters);
    this.events.failed(error);
  }

  #wake(waiters: (() => void)[]): void {
    for (const wake of waiters.splice(0)) wake();
  }
}
