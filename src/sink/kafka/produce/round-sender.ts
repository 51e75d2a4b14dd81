// Sends one round: to each leader the batches of its partitions, one of each at a time. A batch that was refused for a while goes again
// with the same sequence number, so that a broker that has it already knows it.

import type { Connection } from "@platformatic/kafka";
import { listedNames } from "../../../errors/listed-names.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { GcPacer } from "../../../memory/gc-pacer.ts";
import { releaseBytes } from "../../../memory/release-bytes.ts";
import type { Cluster } from "../client/cluster.ts";
import { isNetworkError, isPassing } from "../client/kafka-error.ts";
import { type Acks, type PartitionBatch, produce } from "../client/produce-request.ts";
import type { Compression, RecordBatch } from "../client/record-batch.ts";
import type { MessageRow } from "../parking/refused-records.ts";
import type { PartitionQueue, Round } from "./round.ts";
import { Throttle } from "./throttle.ts";
import { RefusedBatch, type TooLarge, tellTooLarge } from "./too-large.ts";
import type { TransactionalProducer } from "./transactional-producer.ts";

export interface SenderSettings {
  readonly transactionalId: string | null;
  readonly acks: Acks;
  readonly compression: Compression;
  /** How long a broker may wait for its replicas. */
  readonly timeoutMs: number;
  /** Tries of a round after the first one, and how long they may take. */
  readonly maxRetries: number;
  readonly maxRetryMs: number;
  readonly initialBackoffMs: number;
  readonly maxBackoffMs: number;
}

export interface SenderTools {
  readonly signal: AbortSignal;
  readonly nowMs: () => number;
  readonly monotonic: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
}

export interface SenderEvents {
  retrying(attempt: number | null, reason: string): void;
  /** Brokers have taken so many messages, in so many bytes as they were sent. */
  sent(messages: number, bytes: number): void;
  /** A broker takes no larger batches than about so many bytes. */
  halved(bytes: number): void;
  /** A broker takes no message as large as this row's; null: it is of no row, or a small one. Absent: it does not matter. */
  tooLarge?(row: MessageRow | null, reason: string): Promise<void>;
  /** A transaction took so long to be committed. */
  committed(ms: number): void;
}

/** A broker that has not answered for so long is asked about. */
const silenceMs = 2_000;
/** Of one request, about. */
const requestBytes = 4 * 1024 * 1024;
const maxSequence = 0x8000_0000;
const tooLarge: ReadonlySet<string> = new Set(["MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"]);

type Waiting = Map<PartitionQueue, RecordBatch[]>;

export class RoundSender {
  readonly #garbage = new GcPacer();
  readonly #throttle = new Throttle();
  /** Brokers have answered all that was sent: nothing of it is on its way, and no commit has an open outcome. */
  isAnswered = true;
  /** That it takes long. */
  #isTold = false;

  constructor(
    private readonly cluster: Cluster,
    private readonly producer: TransactionalProducer,
    private readonly options: SenderSettings & SenderTools,
    private readonly events: SenderEvents,
  ) {}

  /** Returns when brokers have taken all of it, and its transaction is committed if it ends one. */
  async send(round: Round): Promise<void> {
    const { monotonic } = this.options;
    if (round.batches.size > 0) {
      // No transaction is open meanwhile: it would time out.
      const throttled = this.#throttle.slowest(monotonic());
      if (throttled !== null) await this.#untilFree(throttled);
      await this.producer.add([...round.batches.keys()]);
      await this.#deliver(new Map([...round.batches].map(([queue, batches]) => [queue, [...batches]])));
    }
    if (!round.isCommit) return;
    const begunMs = monotonic();
    this.isAnswered = false;
    await this.producer.commit();
    this.isAnswered = true;
    this.events.committed(monotonic() - begunMs);
  }

  async #deliver(waiting: Waiting): Promise<void> {
    const { monotonic, sleep, signal, maxRetries, maxRetryMs } = this.options;
    const begunMs = monotonic();
    const refused: TooLarge[] = [];
    for (let attempt = 0; ; ) {
      signal.throwIfAborted();
      const error = await this.#sendAll(waiting, refused);
      if (refused.length > 0) throw await tellTooLarge(refused, this.cluster, this.producer, this.events);
      if (error === null) {
        if (attempt > 0 || this.#isTold) this.events.retrying(null, "");
        this.#isTold = false;
        return;
      }
      attempt++;
      const isOver = attempt > maxRetries || monotonic() - begunMs >= maxRetryMs;
      if (!isPassing(error) || isOver) throw this.#failure(error, waiting);
      this.events.retrying(attempt, this.#failure(error, waiting).message);
      this.cluster.forgetRoles();
      await sleep(this.#backoff(attempt), signal);
    }
  }

  /** Returns what kept some of them from being taken; null: all are. */
  async #sendAll(waiting: Waiting, refused: TooLarge[]): Promise<unknown> {
    this.isAnswered = false;
    try {
      await this.cluster.topics([...new Set([...waiting.keys()].map(({ topic }) => topic))]);
      const byLeader = Map.groupBy(waiting.keys(), ({ topic, partition }) =>
        this.cluster.leader(topic, partition),
      );
      const sending = [...byLeader].map(([leader, queues]) => this.#sendTo(leader, queues, waiting, refused));
      const errors = (await Promise.all(sending)).filter((error) => error !== null);
      this.isAnswered = errors.every((error) => error instanceof RefusedBatch);
      // One that cannot be mended says more.
      return errors.find((error) => !isPassing(error)) ?? errors[0] ?? null;
    } catch (error) {
      return error;
    }
  }

  async #sendTo(
    leader: number,
    queues: readonly PartitionQueue[],
    waiting: Waiting,
    refused: TooLarge[],
  ): Promise<unknown> {
    let over = new AbortController();
    let connection: Connection | null = null;
    try {
      connection = await this.cluster.node(leader);
      for (let rest = queues; rest.length > 0; rest = rest.filter((queue) => waiting.has(queue))) {
        await this.#untilFree(leader);
        const request = this.#request(rest, waiting);
        over = new AbortController();
        void this.#watch(leader, queues, connection, over.signal);
        const { verdicts, words, offsets, throttleMs } = await produce(
          connection,
          [...request.values()],
          this.options,
        );
        over.abort();
        this.#throttle.asked(leader, throttleMs, this.options.monotonic());
        let failure: unknown = null;
        for (const [queue, batch] of request) {
          const verdict = verdicts.get(batch) ?? null;
          if (verdict === null) this.#taken(queue, batch, offsets.get(batch) ?? -1, waiting);
          else if (tooLarge.has(verdict) && this.#halve(queue, waiting)) continue;
          else {
            const error = new RefusedBatch(verdict, queue.topic, words.get(batch));
            const isTooLarge = tooLarge.has(verdict);
            if (isTooLarge) refused.push({ error, batch: waiting.get(queue)![0]! });
            // Nothing of the transaction counts: the others go out, so that all that are too large are known.
            if (isTooLarge && this.options.transactionalId !== null) this.#next(queue, waiting);
            else if (failure === null || isPassing(failure)) failure = error;
          }
        }
        for (const { bytes } of request.values()) {
          // The client has made a copy, too.
          this.#garbage.released(2 * bytes.length);
          releaseBytes(bytes);
        }
        if (failure !== null) return failure;
      }
      return null;
    } catch (error) {
      // A half-open connection would swallow the next try too.
      if (isNetworkError(error)) connection?.socket?.destroy();
      return error;
    } finally {
      over.abort();
    }
  }

  /** A quota that is used up holds what is sent back: until then the broker reads nothing. */
  async #untilFree(broker: number): Promise<void> {
    const { monotonic, sleep, signal } = this.options;
    const waitMs = this.#throttle.waitMs(broker, monotonic());
    if (waitMs === 0) return;
    if (waitMs >= silenceMs) {
      const text =
        `Broker ${broker} takes no more for ${(waitMs / 1_000).toFixed(1)} s: a quota of this client or user is used up. ` +
        "Raise producer_byte_rate or request_percentage (kafka-configs.sh --entity-type clients or users) if that is too slow.";
      this.#isTold = true;
      this.events.retrying(1, text);
    }
    await sleep(waitMs, signal);
  }

  /**
   * Looks after a broker that says nothing. Its answer is not waited for when it leads no more, as the others know, or when it answers over
   * another connection after it did not: the one with the batches is dead then.
   */
  async #watch(
    leader: number,
    queues: readonly PartitionQueue[],
    connection: Connection,
    over: AbortSignal,
  ): Promise<void> {
    const topics = [...new Set(queues.map(({ topic }) => topic))];
    for (let seconds = silenceMs / 1_000, wasSilent = false; ; seconds += silenceMs / 1_000) {
      await this.options.sleep(silenceMs, over).catch(() => undefined);
      if (over.aborted) return;
      const answers = await this.cluster.answers(leader);
      const layouts = await this.cluster.topics(topics, true).catch(() => null);
      const isReplaced = ({ topic, partition }: PartitionQueue) => {
        const now = layouts?.get(topic)?.leaders[partition] ?? -1;
        return now >= 0 && now !== leader;
      };
      if (over.aborted) return;
      if ((answers && wasSilent) || queues.some(isReplaced)) connection.socket?.destroy();
      wasSilent ||= !answers;
      const why = answers
        ? "It may wait for replicas that are not in sync (min.insync.replicas), have much to do, or be behind a slow network."
        : "It answers nothing else either.";
      const text = `Broker ${leader} has not said for ${Math.round(seconds)} s that it has taken messages of ${listedNames(topics)}. ${why}`;
      this.#isTold = true;
      this.events.retrying(1, text);
    }
  }

  /** The first batch of each, as many as fit into a request. */
  #request(queues: readonly PartitionQueue[], waiting: Waiting): Map<PartitionQueue, PartitionBatch> {
    const { transactionalId, compression, nowMs } = this.options;
    const { producerId, epoch } = this.producer;
    const request = new Map<PartitionQueue, PartitionBatch>();
    const timeMs = nowMs();
    let bytes = 0;
    for (const queue of queues) {
      const batch = waiting.get(queue)![0]!;
      if (bytes > 0 && bytes + batch.bytes > requestBytes) break;
      bytes += batch.bytes;
      const sequence = producerId < 0n ? -1 : queue.sequence;
      const producer = { producerId, epoch, sequence, isTransactional: transactionalId !== null };
      const { topic, partition } = queue;
      request.set(queue, { topic, partition, bytes: batch.finish(producer, compression, timeMs) });
    }
    return request;
  }

  /** A topic may take less than is configured. False: its first batch is a single message. */
  #halve(queue: PartitionQueue, waiting: Waiting): boolean {
    const [batch, ...rest] = waiting.get(queue)!;
    if (batch!.count < 2) return false;
    this.events.halved(batch!.bytes >> 1);
    waiting.set(queue, [...batch!.halves(), ...rest]);
    return true;
  }

  #taken(queue: PartitionQueue, { bytes }: PartitionBatch, offset: number, waiting: Waiting): void {
    const [batch] = waiting.get(queue)!;
    queue.offsets.took(batch!.count, offset);
    queue.sequence = (queue.sequence + batch!.count) % maxSequence;
    this.events.sent(batch!.count, bytes.length);
    this.#next(queue, waiting);
  }

  /** It is done with the first batch. */
  #next(queue: PartitionQueue, waiting: Waiting): void {
    const [, ...rest] = waiting.get(queue)!;
    if (rest.length > 0) waiting.set(queue, rest);
    else waiting.delete(queue);
  }

  #failure(error: unknown, waiting: Waiting): MillraceError {
    if (error instanceof MillraceError) return error;
    const topics = [...new Set([...waiting.keys()].map(({ topic }) => topic))];
    return this.producer.failure(error, `take messages of ${listedNames(topics)}`);
  }

  #backoff(attempt: number): number {
    const { initialBackoffMs, maxBackoffMs } = this.options;
    return Math.min(maxBackoffMs, initialBackoffMs * 2 ** Math.min(attempt - 1, 20));
  }
}
