// The producer that brokers know: its id and epoch, and the transactions of its transactional id. Beginning one fences whatever else runs
// under that id. The coordinator may be busy, or have moved: then the same is asked again.
// https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging

import { addPartitionsToTxnV3, type Connection, endTxnV3, initProducerIdV4 } from "@platformatic/kafka";
import { listedNames } from "../../../errors/listed-names.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { Cluster } from "../client/cluster.ts";
import {
  brokerErrors,
  isBusyCoordinator,
  isLostCoordinator,
  isNetworkError,
  kafkaFailure,
} from "../client/kafka-error.ts";
import { askAgain, lostWaitMs, type Patience } from "./ask-again.ts";

export interface ProducerOptions extends Patience {
  /** Null: idempotent, without transactions. */
  readonly transactionalId: string | null;
  /** After so long without an end the coordinator aborts a transaction. */
  readonly timeoutMs: number;
  readonly nowMs: () => number;
}

export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

/** A transaction's markers take some milliseconds, in which the next one cannot begin. */
const busyWaitMs = 2;

export class TransactionalProducer {
  #id = -1n;
  #epoch = -1;
  readonly #added = new Set<string>();
  /** The end of a transaction was asked for and not answered: the request may still come. */
  #mayEndLate = false;
  /** When the transaction began; null: none is open. */
  #begun: { readonly monotonicMs: number; readonly wallMs: number } | null = null;

  constructor(
    private readonly cluster: Cluster,
    private readonly options: ProducerOptions,
  ) {}

  get producerId(): bigint {
    return this.#id;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** Asks for an id. What was begun under the transactional id is decided when it returns: what was not committed is aborted. */
  async init(): Promise<void> {
    const { transactionalId, timeoutMs } = this.options;
    const under = transactionalId === null ? "" : ` under transactional_id ${transactionalId}`;
    const answer = await this.#ask(`begin a producer${under}`, (connection) =>
      initProducerIdV4.api.async(connection, transactionalId, timeoutMs, -1n, -1),
    );
    this.#id = answer.producerId;
    this.#epoch = answer.producerEpoch;
    this.#added.clear();
    this.#mayEndLate = false;
    this.#begun = null;
  }

  /**
   * Makes these partitions part of the transaction, which begins with the first ones. A request that comes late names partitions that were
   * in one: at most it begins a transaction without messages. The next one goes on with that. Where none comes, the coordinator aborts it
   * after its time and fences this producer, so that the connector begins again.
   */
  async add(partitions: readonly TopicPartition[]): Promise<void> {
    const { transactionalId, monotonic, nowMs } = this.options;
    if (transactionalId === null) return;
    const fresh = partitions.filter((each) => !this.#added.has(nameOf(each)));
    if (fresh.length === 0) return;
    if (this.#mayEndLate && this.#begun === null) throw endsLate();
    const topics = [...Map.groupBy(fresh, ({ topic }) => topic)].map(([name, ofTopic]) => ({
      name,
      partitions: ofTopic.map(({ partition }) => partition),
    }));
    this.#begun ??= { monotonicMs: monotonic(), wallMs: nowMs() };
    const transaction = { transactionalId, producerId: this.#id, producerEpoch: this.#epoch, topics };
    const names = listedNames(topics.map(({ name }) => name));
    await this.#ask(`add partitions of ${names} to a transaction`, (connection) =>
      addPartitionsToTxnV3.api.async(connection, [{ ...transaction, verifyOnly: false }]),
    );
    for (const each of fresh) this.#added.add(nameOf(each));
  }

  /**
   * Commits the transaction. When it throws, what has become of it is known after the next `init`.
   *
   * It is asked for until it is answered. A coordinator that dies amid it, and is back before the others miss it, has been seen to commit
   * some partitions on its own before another one took over, which would abort the rest: only who insists gets all of it committed.
   *
   * A request that was not answered may still be on its way, and would end the next transaction of this epoch halfway. So `add` begins none,
   * and the next `init` begins another epoch, under which the late request is refused. An answer that asks to wait ends its request.
   * https://cwiki.apache.org/confluence/display/KAFKA/KIP-890%3A+Transactions+Server-Side+Defense
   */
  async commit(): Promise<void> {
    const { transactionalId } = this.options;
    if (transactionalId === null || this.#begun === null) return;
    await this.#ask("commit a transaction", async (connection) => {
      try {
        await endTxnV3.api.async(connection, transactionalId, this.#id, this.#epoch, true);
      } catch (error) {
        this.#mayEndLate ||= brokerErrors(error).length === 0;
        throw error;
      }
    });
    this.#added.clear();
    this.#begun = null;
  }

  /** Aborts the transaction: asks once, also when everything else has been stopped. */
  async abort(): Promise<void> {
    const { transactionalId } = this.options;
    if (transactionalId === null || this.#begun === null) return;
    const connection = await this.cluster.coordinator(transactionalId);
    await endTxnV3.api.async(connection, transactionalId, this.#id, this.#epoch, false);
  }

  /** The failure as it is told: a transaction that was open for too long was aborted, which looks as if another producer ran. */
  failure(error: unknown, what: string): MillraceError {
    const failure = kafkaFailure(error, what);
    const { timeoutMs, monotonic, nowMs } = this.options;
    const begun = this.#begun;
    // A clock that never goes back may stand still while the machine sleeps.
    const openMs = begun === null ? 0 : Math.max(monotonic() - begun.monotonicMs, nowMs() - begun.wallMs);
    if (failure.code !== "kafka_fenced") return failure;
    if (openMs >= timeoutMs * 0.9) {
      const text =
        `The transaction was open for ${Math.round(openMs)} ms, and the broker has aborted it: all of it is sent again. ` +
        `Where the network is slow, or a quota is used up, raise transactions.timeout_ms, which is ${timeoutMs}, or the quota.`;
      return new MillraceError("sink_connection_lost", text, { cause: error });
    }
    const text =
      "Another producer has begun under the same transactional_id: is another service running this connector? " +
      "Then stop the connector in one of the two services, and start it in the other.";
    return new MillraceError("kafka_fenced", text, { cause: error });
  }

  /** The coordinator may be away or elsewhere, or not ready. */
  async #ask<A>(what: string, ask: (connection: Connection) => Promise<A>): Promise<A> {
    const { cluster, options } = this;
    const { transactionalId } = options;
    const again = (error: unknown) => {
      if (isBusyCoordinator(error)) return busyWaitMs;
      if (!isLostCoordinator(error) && !isUnreachable(error)) return null;
      if (transactionalId !== null && isNetworkError(error)) cluster.coordinatorIsSilent(transactionalId);
      cluster.forgetRoles();
      return lostWaitMs;
    };
    const asking =
      transactionalId === null
        ? () => cluster.ask(ask)
        : async () => await ask(await cluster.coordinator(transactionalId));
    return await askAgain(asking, again, (error) => this.failure(error, what), options);
  }
}

function endsLate(): MillraceError {
  const text =
    "A commit had to be asked for again, as the broker did not answer: the connector begins anew, so that the first request ends nothing if it comes late.";
  return new MillraceError("sink_unreachable", text);
}

function isUnreachable(error: unknown): boolean {
  return (
    brokerErrors(error).length === 0 && error instanceof MillraceError && error.code === "sink_unreachable"
  );
}

function nameOf({ topic, partition }: TopicPartition): string {
  return `${topic}/${partition}`;
}
