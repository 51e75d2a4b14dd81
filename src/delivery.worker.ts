// Thread entry for the senders of connectors whose sinks take messages. It wires each connector's delivery, and its transport, to the
// main thread, which owns the record and the log.

import { sleepOrThrow } from "./concurrency/sleep.ts";
import { AddressResolver, egressPolicy } from "./connection/egress.ts";
import type { ConnectorConfig } from "./connector/connector.ts";
import { sharedInterval } from "./measure/shared-interval.ts";
import { StreamGarbage, smallProcessBytes } from "./memory/stream-garbage.ts";
import { KafkaCounter } from "./runtime/metrics/kafka-counter.ts";
import { type Assignment, hostAssignments } from "./runtime/threads/assignments.ts";
import {
  checkpointStore,
  type MainThreadChannel,
  parkingStore,
  receiptAsk,
} from "./runtime/threads/main-thread-channel.ts";
import type { FromDeliveryWorker, ToDeliveryWorker } from "./runtime/threads/messages.ts";
import { DeliverySession } from "./sink/delivery/delivery-session.ts";
import type { DeliverySettings, DeliveryTools } from "./sink/delivery/delivery-settings.ts";
import { LineServer } from "./sink/delivery/line/line-server.ts";
import { requestTransport } from "./sink/delivery/order/request-transport.ts";
import type { ReceiptPlace } from "./sink/delivery/receipts/receipt-keeping.ts";
import type { OpenTransport, Transport } from "./sink/delivery/transport.ts";
import { ConnectionPool } from "./sink/http/connection-pool.ts";
import { AttemptCounter } from "./sink/webhook/attempt-counter.ts";
import { RateLimiter } from "./sink/webhook/rate-limiter.ts";
import { createSender } from "./sink/webhook/sender.ts";
import { webhookConfig, webhookSettings } from "./sink/webhook/webhook-settings.ts";

declare const self: Worker;

const countsIntervalMs = 1_000;
/** Garbage of a request, approximately, beside its body. */
const leftByRequestBytes = 1024;
/** How long the state may take to store what was delivered, when the sender ends. */
const lastRecordMs = 300;

type Start = Extract<ToDeliveryWorker, { type: "start" }>;

interface Delivering {
  readonly settings: DeliverySettings;
  readonly transport: DeliveryTools["transport"];
  readonly stopWithinMs?: number;
}

const monotonic = () => performance.now();

/** Shared by the assignments. */
const garbage = new StreamGarbage(smallProcessBytes);

class DeliveryAssignment implements Assignment<ToDeliveryWorker> {
  readonly #main: MainThreadChannel<FromDeliveryWorker>;
  readonly #pool = new ConnectionPool();
  readonly #attempts = new AttemptCounter();
  readonly #produced = new KafkaCounter();
  #reportedAttempts = 0;
  #reportedProduced = 0;
  #reporting: Disposable | null = null;
  #server: LineServer | null = null;
  #starting: Promise<void> | null = null;
  /** Of the session under way. */
  #transport: Transport | null = null;

  constructor(main: MainThreadChannel<FromDeliveryWorker>) {
    this.#main = main;
  }

  receive(message: ToDeliveryWorker): void {
    switch (message.type) {
      case "start":
        this.#starting = this.#start(message);
        break;
      case "row.find": {
        const { questionId, question } = message;
        this.#main.send({
          type: "row.found",
          questionId,
          requests: this.#transport?.find?.(question) ?? null,
        });
        break;
      }
      case "reply":
        this.#main.receiveReply(message);
        break;
      default:
        message satisfies never;
    }
  }

  async stop(): Promise<void> {
    await this.#starting;
    const closing = setTimeout(() => this.#main.close(), lastRecordMs);
    await this.#server?.close();
    clearTimeout(closing);
    this.#reporting?.[Symbol.dispose]();
    this.#reportCounts();
    this.#pool[Symbol.dispose]();
  }

  async #start({ connector, runId, port }: Start): Promise<void> {
    this.#reporting = sharedInterval(countsIntervalMs, () => this.#reportCounts());
    const { settings, transport, stopWithinMs } = connector.sink.kafka
      ? await this.#kafka(connector, runId)
      : this.#webhook(connector);
    const log = (level: "info" | "warn", message: string, fields: Readonly<Record<string, string>>) =>
      this.#main.send({ type: "log", level, message, fields });
    const open: OpenTransport = (events, store) => {
      this.#transport = transport(events, store);
      return this.#transport;
    };
    const tools = { transport: open, store: checkpointStore(this.#main), log, monotonic };
    this.#server = new LineServer(port, (send) => new DeliverySession(settings, tools, send), stopWithinMs);
  }

  #webhook(connector: ConnectorConfig): Delivering {
    const config = webhookConfig(connector);
    const settings = webhookSettings(connector);
    const attempt = createSender(config, {
      egress: { resolver: new AddressResolver(egressPolicy(process.env)), pool: this.#pool },
      rateLimiter: new RateLimiter({
        maxRequestsPerSecond: config.rate_limit.max_requests_per_second,
        maxBytesPerSecond: config.rate_limit.max_bytes_per_second,
      }),
      now: Date.now,
      monotonic,
      sleep: sleepOrThrow,
      attempted: (result, bytes, uncompressedBytes) => {
        this.#attempts.add(result, bytes);
        // To make the body leaves as much garbage as the body has, however small it is sent.
        garbage.released(leftByRequestBytes + uncompressedBytes);
      },
    });
    return {
      settings,
      transport: requestTransport(settings, attempt, {
        monotonic,
        sleep: sleepOrThrow,
        random: Math.random,
        parking: { connectorId: connector.id, store: parkingStore(this.#main) },
        receipts: this.#receipts(connector),
      }),
    };
  }

  /** Undefined: the connector keeps none. What an earlier configuration has kept goes. */
  #receipts({ limits }: ConnectorConfig): ReceiptPlace | undefined {
    const ask = receiptAsk(this.#main);
    const maxAgeMs = limits.receipts_hours * 3_600_000;
    const maxBytes = limits.receipts_max_bytes;
    if (maxAgeMs > 0) return { maxAgeMs, maxBytes, ask, nowMs: Date.now };
    ask({ kind: "prune", maxAgeMs: 0, maxBytes: 0 }).catch(() => undefined);
    return undefined;
  }

  /** Kafka's client is loaded where it is used: it takes some MB. */
  async #kafka(connector: ConnectorConfig, runId: string): Promise<Delivering> {
    const [{ kafkaSettings }, { kafkaTransport }] = await Promise.all([
      import("./sink/kafka/kafka-settings.ts"),
      import("./sink/kafka/kafka-transport.ts"),
    ]);
    const settings = kafkaSettings(connector);
    const transport = kafkaTransport(settings, runId, {
      monotonic,
      nowMs: Date.now,
      resolver: new AddressResolver(egressPolicy(process.env)),
      parking: { connectorId: connector.id, store: parkingStore(this.#main) },
      counts: this.#produced,
      receipts: this.#receipts(connector),
    });
    return { settings: settings.delivery, transport, stopWithinMs: settings.stopWithinMs };
  }

  /** Sends the counters if they have changed. */
  #reportCounts(): void {
    if (this.#attempts.count !== this.#reportedAttempts)
      this.#main.send({ type: "attempts", ...this.#attempts.counts() });
    this.#reportedAttempts = this.#attempts.count;
    if (this.#produced.count !== this.#reportedProduced)
      this.#main.send({ type: "produced", counts: this.#produced.counts() });
    this.#reportedProduced = this.#produced.count;
  }
}

hostAssignments<ToDeliveryWorker, FromDeliveryWorker>(self, (main) => new DeliveryAssignment(main));
