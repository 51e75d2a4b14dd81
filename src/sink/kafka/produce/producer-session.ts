// The cluster and the producer of one session. They are there once it has begun: until then nothing is sent.

import { MillraceError } from "../../../errors/millrace-error.ts";
import { Cluster } from "../client/cluster.ts";
import { saslOf, tlsOf } from "../client/kafka-connection.ts";
import { isPassing, kafkaFailure } from "../client/kafka-error.ts";
import { Topics } from "../client/topics.ts";
import type { ProducingSettings } from "../kafka-settings.ts";
import type { Round } from "./round.ts";
import { RoundSender, type SenderEvents, type SenderOptions } from "./round-sender.ts";
import { TransactionalProducer } from "./transactional-producer.ts";

type Tools = Pick<SenderOptions, "monotonic" | "nowMs" | "sleep" | "signal">;

interface Begun {
  readonly cluster: Cluster;
  readonly topics: Topics;
  readonly producer: TransactionalProducer;
  readonly sender: RoundSender;
}

const connectTimeoutMs = 5_000;
const abortWithinMs = 1_000;
const askAgainMs = 100;
/** What passes sooner is not told. */
const tellAfterMs = 500;

export class ProducerSession {
  #begun: Begun | null = null;
  /** The round that is on its way, or that failed. */
  #sending: Promise<void> | null = null;

  constructor(
    private readonly settings: ProducingSettings,
    private readonly tools: Tools,
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
      ...{ tls: await tlsOf(connection.auth), sasl: saslOf(connection.auth) },
      ...{ connectTimeoutMs, requestTimeoutMs: settings.requestTimeoutMs },
      ...{ metadataAgeMs: settings.metadataAgeMs, monotonic },
    });
    const producer = new TransactionalProducer(cluster, {
      ...{ transactionalId, monotonic, nowMs, sleep, signal },
      timeoutMs: settings.transactionTimeoutMs,
      operationTimeoutMs: settings.operationTimeoutMs,
      retrying: (attempt, reason) => this.events.retrying(attempt, reason),
    });
    const sender = new RoundSender(cluster, producer, { ...settings.sender, ...tools }, this.events);
    this.#begun = { cluster, producer, sender, topics: new Topics(cluster, sleep, monotonic, signal) };
    await cluster.topics([], true);
    await before(cluster);
    if (acks === "All") await producer.init();
  }

  /** What `ask` gives, asked again for a while as long as that may help. `what`: as the end of "Kafka refused to …". */
  async askAgain<A>(what: string, ask: () => Promise<A>): Promise<A> {
    const { monotonic, sleep, signal } = this.tools;
    const begunMs = monotonic();
    const untilMs = begunMs + this.settings.operationTimeoutMs;
    for (let attempt = 0; ; attempt++) {
      signal.throwIfAborted();
      try {
        const answer = await ask();
        if (attempt > 0) this.events.retrying(null, "");
        return answer;
      } catch (error) {
        const failure = kafkaFailure(error, what);
        if (!isPassing(error) || monotonic() >= untilMs) throw failure;
        if (monotonic() - begunMs >= tellAfterMs) this.events.retrying(attempt + 1, failure.message);
        this.#here.cluster.forgetRoles();
        await sleep(askAgainMs, signal);
      }
    }
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
    const aborted = Promise.resolve(this.#sending).then(() => begun.producer.abort());
    await Promise.race([
      aborted.catch(() => undefined),
      new Promise((resolve) => setTimeout(resolve, abortWithinMs)),
    ]);
    await begun.cluster.close();
  }

  get #here(): Begun {
    if (!this.#begun) throw new MillraceError("sink_connection_lost", "the producer has not begun");
    return this.#begun;
  }
}
