// Sends many requests at once. Requests of one table that share a row are sent one after the other. A request that fails waits for its
// next attempt, and only those that share a row with it wait too. Incremental copies have a share of their own, so that no change of
// the stream waits for them.

import { Waiters } from "../../../concurrency/waiters.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { releaseBody } from "../../format/values/message-body.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import { tableKey } from "../table-key.ts";
import { type Attempt, type AttemptOutcome, describeRequest } from "./attempt.ts";
import { attemptInPlace } from "./attempt-places.ts";
import { decideRetry } from "./backoff.ts";
import { Delivery, type ReadyQueue, RequestLane, SchedulerShare } from "./request-lane.ts";
import { RequestWork } from "./request-work.ts";
import { RetryReport } from "./retry-report.ts";
import type { SchedulerEvents, SchedulerOptions } from "./scheduler-options.ts";

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
  readonly #retries: RetryReport<Delivery>;
  #draining = false;
  #failed = false;
  readonly #drainWaiters = new Waiters();

  constructor(
    private readonly attempt: Attempt,
    private readonly options: SchedulerOptions,
    private readonly events: SchedulerEvents,
  ) {
    const { maxBytes, maxRequests, maxRows } = options;
    this.#retries = new RetryReport((attempt, reason, inMs) => events.retrying(attempt, reason, inMs));
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
    const name = tableKey(request.schema, request.table);
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

  /** Requests of the table that are not delivered and touch the key with this identity hash. */
  touching(schema: string, table: string, hash: number): readonly Delivery[] {
    return this.#lanes.get(tableKey(schema, table))?.touching(hash) ?? [];
  }

  /** Begins no new attempt, and returns when those under way have ended, or when `signal` aborts them. */
  async drain(signal: AbortSignal): Promise<void> {
    this.#draining = true;
    this.#wakeAll();
    const stop = () => this.#stop.abort(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    while (this.#inFlight > 0) {
      await this.#drainWaiters.change();
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
      while (await this.#attempt(delivery)) if (this.isOver) return;
    } catch (error) {
      // An attempt throws only when it was stopped. Parking fails as the state does. Anything else is our own fault, and must not be lost.
      if (!this.#stop.signal.aborted) {
        const unexpected = () =>
          new MillraceError("internal", "sending failed unexpectedly", { cause: error });
        this.#fail(error instanceof MillraceError ? error : unexpected());
      }
    } finally {
      delivery.share.inFlight--;
      if (this.#inFlight === 0) this.#drainWaiters.wake();
      this.#pump();
    }
  }

  /** Makes one attempt at what comes first of a delivery. Returns whether another one follows at once: of its next part. */
  async #attempt(delivery: Delivery): Promise<boolean> {
    const { undeliverable } = this.options;
    const { signal } = this.#stop;
    let request: OutgoingRequest | null = delivery.request;
    if (undeliverable && (delivery.work || !undeliverable.isIdle)) {
      delivery.work ??= new RequestWork([request]);
      request = await undeliverable.next(delivery.work, signal);
      if (this.isOver) return false;
    }
    if (request === null) {
      this.#finish(delivery);
      return false;
    }
    const outcome = await attemptInPlace(this.attempt, this.options, request, signal, () => this.isOver);
    if (outcome === null) return false;
    switch (outcome.kind) {
      case "delivered":
        if (!delivery.work || delivery.work.parts.length === 1) {
          this.#finish(delivery);
          return false;
        }
        delivery.work.replaceFirst();
        this.#forgetAttempts(delivery);
        return true;
      case "rejected":
        if (outcome.note && undeliverable) {
          delivery.work ??= new RequestWork([request]);
          delivery.work.note(outcome.note);
          if (outcome.isUncertain) delivery.work.isUncertain = true;
          if (await undeliverable.takes(delivery.work, "refused", signal)) {
            this.#forgetAttempts(delivery);
            return true;
          }
        }
        this.#fail(outcome.error);
        return false;
      case "retry":
        return await this.#scheduleRetry(delivery, request, outcome);
      default:
        outcome satisfies never;
        return false;
    }
  }

  /** What comes next of it is tried for the first time. */
  #forgetAttempts(delivery: Delivery): void {
    delivery.attempts = 0;
    this.#retries.ended(delivery);
  }

  #finish(delivery: Delivery): void {
    const { lane } = delivery;
    this.#retries.ended(delivery);
    for (const freed of lane.finish(delivery)) freed.queue.ready.push(freed);
    this.#queue(lane.stream);
    this.#queue(lane.copies);
    if (lane.isEmpty) this.#lanes.delete(tableKey(delivery.request.schema, delivery.request.table));
    delivery.onDelivered();
    delivery.share.remove(delivery.request);
    // The transport sends a copy of its own, so nobody reads the body any more.
    releaseBody(delivery.request.body);
  }

  /** Returns whether something else of the delivery follows at once, as the retries of this have ended. */
  async #scheduleRetry(
    delivery: Delivery,
    request: OutgoingRequest,
    { reason, retryAfterMs, note }: Extract<AttemptOutcome, { kind: "retry" }>,
  ): Promise<boolean> {
    const now = this.options.monotonic();
    if (delivery.attempts === 0) delivery.firstFailureMs = now;
    delivery.attempts++;
    const { undeliverable } = this.options;
    if (undeliverable && note) {
      delivery.work ??= new RequestWork([request]);
      delivery.work.note(note);
      delivery.work.isUncertain = true;
    }
    const decision = decideRetry(this.options.retry, {
      attempts: delivery.attempts,
      elapsedMs: now - delivery.firstFailureMs,
      retryAfterMs,
      random: this.options.random(),
    });
    if (decision.kind === "exhausted") {
      const { work } = delivery;
      if (work && (await undeliverable?.takes(work, "exhausted", this.#stop.signal))) {
        this.#forgetAttempts(delivery);
        return true;
      }
      const what = `${describeRequest(request)} was not delivered after ${delivery.attempts} attempts`;
      const text = `${what} (${decision.limit}): ${reason}. Start the connector again to go on with it`;
      const { schema, table: name } = request;
      const table = { schema, name, commands: [] };
      this.#fail(new MillraceError(this.options.retriesExhausted, text, { table }));
      return false;
    }
    this.#retries.failed(delivery, delivery.attempts, reason, decision.delayMs);
    void this.#waitAndRetry(delivery, decision.delayMs);
    return false;
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
}
