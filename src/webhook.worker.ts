// Thread entry for the senders of webhook connectors. It wires each connector's delivery to the main thread, which owns
// the record and the log.

import { GcPacer } from "./change/gc-pacer.ts";
import { sharedInterval } from "./measure/shared-interval.ts";
import { type Assignment, hostAssignments } from "./runtime/threads/assignments.ts";
import { checkpointStore, type MainThreadChannel } from "./runtime/threads/main-thread-channel.ts";
import type { FromWebhookWorker, ToWebhookWorker } from "./runtime/threads/messages.ts";
import { DeliverySession } from "./sink/delivery/delivery-session.ts";
import { LineServer } from "./sink/delivery/line/line-server.ts";
import { requestTransport } from "./sink/delivery/order/request-transport.ts";
import { sleep } from "./sink/delivery/order/sleep.ts";
import { AttemptCounter } from "./sink/webhook/attempt-counter.ts";
import { AddressResolver, egressPolicy } from "./sink/webhook/egress.ts";
import { ConnectionPool } from "./sink/webhook/http/connection-pool.ts";
import { Pacer } from "./sink/webhook/pacer.ts";
import { createSender } from "./sink/webhook/sender.ts";
import { webhookConfig, webhookSettings } from "./sink/webhook/webhook-settings.ts";

declare const self: Worker;

const attemptsIntervalMs = 1_000;
/**
 * Garbage of a request, approximately. Where each row is a request it would pile up to 100 MB before the collector
 * runs.
 */
const leftByRequestBytes = 3 * 1024;
/** How long the state may take to store what was delivered, when the sender ends. */
const lastRecordMs = 300;

/** Shared by the assignments, because garbage is collected for the whole thread. */
const garbage = new GcPacer();

class WebhookAssignment implements Assignment<ToWebhookWorker> {
  readonly #main: MainThreadChannel<FromWebhookWorker>;
  readonly #pool = new ConnectionPool();
  readonly #attempts = new AttemptCounter();
  #reportedCount = 0;
  #reporting: Disposable | null = null;
  #server: LineServer | null = null;

  constructor(main: MainThreadChannel<FromWebhookWorker>) {
    this.#main = main;
  }

  receive(message: ToWebhookWorker): void {
    switch (message.type) {
      case "start":
        this.#start(message);
        break;
      case "reply":
        this.#main.receiveReply(message);
        break;
      default:
        message satisfies never;
    }
  }

  async stop(): Promise<void> {
    const closing = setTimeout(() => this.#main.close(), lastRecordMs);
    await this.#server?.close();
    clearTimeout(closing);
    this.#reporting?.[Symbol.dispose]();
    this.#reportAttempts();
    this.#pool[Symbol.dispose]();
  }

  #start({ connector, port }: Extract<ToWebhookWorker, { type: "start" }>): void {
    const config = webhookConfig(connector);
    const settings = webhookSettings(connector);
    const monotonic = () => performance.now();
    this.#reporting = sharedInterval(attemptsIntervalMs, () => this.#reportAttempts());
    const attempt = createSender(config, {
      egress: { resolver: new AddressResolver(egressPolicy(process.env)), pool: this.#pool },
      pacer: new Pacer({
        maxRequestsPerSecond: config.rate_limit.max_requests_per_second,
        maxBytesPerSecond: config.rate_limit.max_bytes_per_second,
      }),
      now: Date.now,
      monotonic,
      sleep,
      attempted: (result, bytes) => {
        this.#attempts.add(result, bytes);
        garbage.released(leftByRequestBytes);
      },
    });
    const log = (level: "info" | "warn", message: string, fields: Readonly<Record<string, string>>) =>
      this.#main.send({ type: "log", level, message, fields });
    const store = checkpointStore(this.#main);
    const transport = requestTransport(settings, attempt, { monotonic, sleep, random: Math.random });
    const tools = { transport, store, log, monotonic };
    this.#server = new LineServer(port, (send) => new DeliverySession(settings, tools, send));
  }

  /** Sends the counters if they have changed. */
  #reportAttempts(): void {
    if (this.#attempts.count !== this.#reportedCount)
      this.#main.send({ type: "attempts", ...this.#attempts.counts() });
    this.#reportedCount = this.#attempts.count;
  }
}

hostAssignments<ToWebhookWorker, FromWebhookWorker>(self, (main) => new WebhookAssignment(main));
