// The parking of one session with Kafka: what is parked, what sends it again, and what a commit has to do with both.
//
// A message that is sent again is added behind all that was added before, and is committed with the record. The record names it until the
// state knows, so that it is sent once whatever dies between.

import type { Checkpoint } from "../../../change/checkpoint.ts";
import type { Relation } from "../../../change/relation.ts";
import { Waiters } from "../../../concurrency/waiters.ts";
import { toMillraceError } from "../../../errors/millrace-error.ts";
import type { Attempt, AttemptOutcome } from "../../delivery/order/attempt.ts";
import { ParkedRetry } from "../../delivery/parking/parked-retry.ts";
import { parkedWarner } from "../../delivery/parking/parked-warning.ts";
import type { ParkingPlace } from "../../delivery/parking/parking-set.ts";
import { wholeBody } from "../../delivery/parking/request-parts.ts";
import { passedPoint } from "../../delivery/parking/row-place.ts";
import type { PlannedRow } from "../../delivery/stream/request-plan.ts";
import type { TransportEvents } from "../../delivery/transport.ts";
import { releaseArena, retainArena } from "../../format/values/arena-references.ts";
import type { ParkingAtCommit } from "../checkpoint/kafka-store.ts";
import type { KafkaSettings } from "../kafka-settings.ts";
import { isRefusal, KafkaParking } from "./kafka-parking.ts";
import { type MessageRow, RefusedRecords } from "./refused-records.ts";
import { loadRow } from "./stored-row.ts";

export interface KafkaParkingTools {
  readonly place: ParkingPlace;
  readonly monotonic: () => number;
  readonly nowMs: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Adds the messages of a parked row, and calls `added` before anything else can happen. Rejects with why it cannot be sent. */
  readonly add: (relation: Relation, row: PlannedRow, id: string, added: () => void) => Promise<void>;
  /** Null: with transactions. Otherwise resolves when brokers have taken all that was added. */
  readonly taken: (() => Promise<void>) | null;
}

/** Of one commit, at most: the record names each. */
const mostRetried = 500;
const retriesAtOnce = 8;

export class KafkaParkingSet implements ParkingAtCommit {
  readonly parking: KafkaParking;
  readonly retry: ParkedRetry;
  readonly refused: RefusedRecords;
  /** Added, and parked as far as the state knows. */
  readonly #retried = new Set<string>();
  readonly #waiters = new Waiters();
  /** All that was asked for until then was added, and is not committed. */
  #triedUntil: string | null = null;

  constructor(
    { connectorId, parking: settings, sender }: Pick<KafkaSettings, "connectorId" | "parking" | "sender">,
    private readonly events: TransportEvents,
    private readonly tools: KafkaParkingTools,
  ) {
    const { place, monotonic, nowMs, sleep, taken } = tools;
    const { store } = place;
    this.refused = new RefusedRecords(store);
    const warn = parkedWarner(connectorId, monotonic, (reason) => events.warning("parking", reason));
    const changed = () => {
      const { size, bytes } = this.parking.entries.parked;
      if (size > 0) void this.retry.watch();
      warn(size, bytes);
    };
    const failed = (error: unknown) => events.failed(toMillraceError(error));
    const { refused } = this;
    // With transactions the record says what was sent again.
    const waitsForCheckpoint = taken !== null;
    this.parking = new KafkaParking({
      connectorId,
      store,
      settings,
      refused,
      monotonic,
      nowMs,
      changed,
      failed,
      waitsForCheckpoint,
    });
    const { initialBackoffMs, maxBackoffMs } = sender;
    this.retry = new ParkedRetry({
      entries: this.parking.entries,
      stored: async () => void (await this.parking.stored()),
      // With transactions the state is told after the commit.
      store: { ...store, ...(taken ? {} : { delivered: async () => {} }), tried: this.#tried },
      isHeld: (entry) => this.refused.isHeld(entry.id),
      replacement: (id) => this.parking.lastOfCopies(id),
      attempt: this.#attempt,
      policy: { maxRetries: 0, maxRetryDurationMs: 0, initialBackoffMs, maxBackoffMs },
      maxInFlight: retriesAtOnce,
      everyMs: settings.retryEveryMs,
      monotonic,
      sleep,
      random: Math.random,
      looked: changed,
      failed,
    });
    this.parking.retry = this.retry;
  }

  async begin(retried: readonly string[]): Promise<void> {
    if (retried.length > 0) await this.tools.place.store.delivered(retried);
    await Promise.all([this.parking.load(), this.refused.load()]);
    await this.retry.watch();
  }

  stored(): Promise<void> | null {
    return this.parking.stored();
  }

  retried(): readonly string[] {
    return [...this.#retried];
  }

  committed(retried: readonly string[]): void {
    if (retried.length > 0) void this.#note(retried);
  }

  /** A broker does not take the row's message: the session ends, and the next one knows. Returns whether it does. */
  async refuse(row: MessageRow | null, reason: string): Promise<boolean> {
    if (row === null) return false;
    const note = { at: new Date(this.tools.nowMs()).toISOString(), error: reason };
    if (row.parkedId === null) await this.refused.add(row, reason);
    else {
      await this.refused.hold(row.parkedId, reason);
      // Others that were asked for are tried in the next session.
      await this.tools.place.store.refused(row.parkedId, [note], this.retry.askedUntil ?? this.#triedUntil);
    }
    return true;
  }

  /** Rows of the stream up to there never come again. `areCopiesOpen`: those of a copy may. */
  passed(checkpoint: Checkpoint, areCopiesOpen: boolean): void {
    const { entries } = this.parking;
    const point = passedPoint(checkpoint);
    if (entries.passed(point)) this.retry.reached();
    if (entries.sweep(point, areCopiesOpen, !this.refused.isEmpty)) this.refused.passed(point);
  }

  readonly #attempt: Attempt = async (request, signal) => {
    const { add, taken } = this.tools;
    while (this.#retried.size >= mostRetried && !signal.aborted) await this.#waiters.change();
    signal.throwIfAborted();
    const { relation, row } = loadRow(wholeBody(request.body));
    // A large value in it is given back once it is written, and the row is still read then.
    retainArena(row.arena);
    try {
      // A commit that has the message has to name it.
      await add(
        relation,
        row,
        request.idempotencyKey,
        () => !taken && this.#retried.add(request.idempotencyKey),
      );
    } catch (error) {
      return this.#refused(error);
    } finally {
      releaseArena(row.arena);
    }
    if (taken) await taken();
    else this.events.commit();
    return { kind: "delivered" };
  };

  /** What is rolled back is asked for still. */
  readonly #tried = async (askedUntil: string): Promise<void> => {
    this.#triedUntil = askedUntil;
    while (this.#retried.size > 0) await this.#waiters.change();
    await this.tools.place.store.tried(askedUntil);
    await this.refused.release();
    this.#triedUntil = null;
  };

  #refused(error: unknown): AttemptOutcome {
    const failure = toMillraceError(error);
    const note = { at: new Date(this.tools.nowMs()).toISOString(), error: failure.message };
    const isFinal: boolean = isRefusal(failure);
    if (isFinal) return { kind: "rejected", error: failure, note };
    if (failure.code !== "sink_unreachable" && failure.code !== "sink_too_few_brokers") throw failure;
    return { kind: "retry", reason: failure.message, retryAfterMs: 0, note };
  }

  /** The record names them until the state knows. */
  async #note(retried: readonly string[]): Promise<void> {
    try {
      await this.tools.place.store.delivered(retried);
    } catch (error) {
      this.events.failed(toMillraceError(error));
      return;
    }
    for (const id of retried) this.#retried.delete(id);
    this.#waiters.wake();
  }
}
