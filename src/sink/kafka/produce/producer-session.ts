// The cluster and the producer of one session. They are there once it has begun: until then nothing is sent.

import { AddressResolver } from "../../../connection/egress.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { Cluster } from "../client/cluster.ts";
import { saslOf, tlsOf } from "../client/kafka-connection.ts";
import { isPassing, kafkaFailure } from "../client/kafka-error.ts";
import { Topics } from "../client/topics.ts";
import type { ProducingSettings } from "../kafka-settings.ts";
import { askAgain, lostWaitMs, type Patience } from "./ask-again.ts";
import type { Round } from "./round.ts";
import { RoundSender, type SenderEvents, type SenderTools } from "./round-sender.ts";
import { TransactionalProducer } from "./transactional-producer.ts";

interface Begun {
  readonly cluster: Cluster;
  readonly topics: Topics;
  readonly producer: TransactionalProducer;
  readonly sender: RoundSender;
}

const connectTimeoutMs = 5_000;
const abortWithinMs = 1_000;

export class ProducerSession {
  #begun: Begun | null = null;
  /** The round that is on its way, or that failed. */
  #sending: Promise<void> | null = null;

  constructor(
    private readonly settings: ProducingSettings,
    private readonly tools: SenderTools,
    private readonly events: SenderEvents,
  ) {}

  get cluster(): Cluster {
    return this.#here.cluster;
  }

  get topics(): Topics {
    return this.#here.topics;
  }

  /**
   * Connects, and begins the producer: what another one has begun under its transactional id is aborted, and that one is fenced. `before`
   * may throw what speaks against that.
   */
  async begin(before: (cluster: Cluster) => Promise<void> = async () => {}): Promise<void> {
    await this.close();
    const { settings, tools } = this;
    const { monotonic, nowMs, sleep, signal } = tools;
    const { transactionalId, acks } = settings.sender;
    const { connection } = settings.config;
    const cluster = new Cluster({
      brokers: connection.brokers,
      clientId: connection.config.client_id ?? `millrace-${settings.connectorId}`,
      tls: await tlsOf(connection.auth),
      sasl: saslOf(connection.auth),
      connectTimeoutMs,
      requestTimeoutMs: settings.requestTimeoutMs,
      metadataAgeMs: settings.metadataAgeMs,
      monotonic,
      resolver: new AddressResolver("default"),
    });
    const producer = new TransactionalProducer(cluster, {
      ...this.#patience,
      transactionalId,
      nowMs,
      timeoutMs: settings.transactionTimeoutMs,
    });
    const sender = new RoundSender(cluster, producer, { ...settings.sender, ...tools }, this.events);
    this.#begun = { cluster, producer, sender, topics: new Topics(cluster, sleep, monotonic, signal) };
    await cluster.topics([], true);
    await before(cluster);
    if (acks === "All") await producer.init();
  }

  /** `what`: as the end of "Kafka refused to …". */
  async askAgain<A>(what: string, ask: () => Promise<A>): Promise<A> {
    const again = (error: unknown) => {
      if (!isPassing(error)) return null;
      this.#here.cluster.forgetRoles();
      return lostWaitMs;
    };
    return await askAgain(ask, again, (error) => kafkaFailure(error, what), this.#patience);
  }

  async send(round: Round): Promise<void> {
    const sending = this.#here.sender.send(round);
    this.#sending = sending;
    await sending;
    this.#sending = null;
  }

  /**
   * Aborts what was begun: otherwise readers wait for it until it times out. What is on its way has to arrive before: behind the end of its
   * transaction it would open another. Where that takes too long the abort is left to the next `begin`.
   */
  async close(): Promise<void> {
    const begun = this.#begun;
    this.#begun = null;
    if (!begun) return;
    const arrived = Promise.resolve(this.#sending).catch((error: unknown) => {
      // What brokers refuse may end a run for good: then no `begin` follows that would abort.
      if (!begun.sender.isAnswered) throw error;
    });
    const aborted = arrived.then(() => begun.producer.abort());
    await Promise.race([
      aborted.catch(() => undefined),
      new Promise((resolve) => setTimeout(resolve, abortWithinMs)),
    ]);
    await begun.cluster.close();
  }

  get #patience(): Patience {
    const { monotonic, sleep, signal } = this.tools;
    const { operationTimeoutMs } = this.settings;
    const retrying = (attempt: number | null, reason: string) => this.events.retrying(attempt, reason);
    return { operationTimeoutMs, retrying, monotonic, sleep, signal };
  }

  get #here(): Begun {
    if (!this.#begun) throw new MillraceError("sink_connection_lost", "the producer has not begun");
    return this.#begun;
  }
}
