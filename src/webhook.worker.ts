// Thread entry: the senders of webhook connectors. Wires the delivery of each to the main thread, which keeps its
// record and its log; everything else is in sink/webhook.

import { PassingBytes } from "./change/passing-bytes.ts";
import { sharedInterval } from "./measure/shared-interval.ts";
import { checkpointStore, type MainThread } from "./runtime/threads/main-thread.ts";
import type { FromWebhookWorker, ToWebhookWorker } from "./runtime/threads/messages.ts";
import { hostSeats, type Seat } from "./runtime/threads/seats.ts";
import { configuredSink } from "./sink/delivery/configured-sink.ts";
import { LineServer } from "./sink/delivery/line/line-server.ts";
import { sleep } from "./sink/delivery/order/sleep.ts";
import { WebhookDelivery } from "./sink/delivery/webhook-delivery.ts";
import { AttemptCounter } from "./sink/webhook/attempt-counter.ts";
import { AddressResolver, egressPolicy } from "./sink/webhook/egress.ts";
import { ConnectionPool } from "./sink/webhook/http/connection-pool.ts";
import { Pacer } from "./sink/webhook/pacer.ts";
import { createSender } from "./sink/webhook/sender.ts";

declare const self: Worker;

const attemptsIntervalMs = 1_000;
/** Of small objects, at about. Where a request is one row they come to 100 MB before the collector looks. */
const leftByRequestBytes = 3 * 1024;
/** How long the state may take to keep what has been delivered, when the sender ends. */
const lastRecordMs = 300;

/** The collector looks at the whole thread. */
const passing = new PassingBytes();

class WebhookSeat implements Seat<ToWebhookWorker> {
  readonly #main: MainThread<FromWebhookWorker>;
  readonly #pool = new ConnectionPool();
  readonly #attempts = new AttemptCounter();
  #told = 0;
  #telling: Disposable | null = null;
  #server: LineServer | null = null;

  constructor(main: MainThread<FromWebhookWorker>) {
    this.#main = main;
  }

  hear(message: ToWebhookWorker): void {
    switch (message.type) {
      case "start":
        this.#start(message);
        break;
      case "reply":
        this.#main.settle(message);
        break;
      default:
        message satisfies never;
    }
  }

  async leave(): Promise<void> {
    const hangingUp = setTimeout(() => this.#main.hangUp(), lastRecordMs);
    await this.#server?.close();
    clearTimeout(hangingUp);
    this.#telling?.[Symbol.dispose]();
    this.#tellAttempts();
    this.#pool[Symbol.dispose]();
  }

  #start({ connector, line }: Extract<ToWebhookWorker, { type: "start" }>): void {
    const config = configuredSink(connector);
    const monotonic = () => performance.now();
    this.#telling = sharedInterval(attemptsIntervalMs, () => this.#tellAttempts());
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
        this.#attempts.note(result, bytes);
        passing.note(leftByRequestBytes);
      },
    });
    const log = (level: "info" | "warn", message: string, fields: Readonly<Record<string, string>>) =>
      this.#main.tell({ type: "log", level, message, fields });
    const store = checkpointStore(this.#main);
    const tools = { attempt, store, log, monotonic, sleep, random: Math.random };
    this.#server = new LineServer(line, (send) => new WebhookDelivery(connector, tools, send));
  }

  /** At most about once a second. */
  #tellAttempts(): void {
    if (this.#attempts.count !== this.#told)
      this.#main.tell({ type: "attempts", ...this.#attempts.counts() });
    this.#told = this.#attempts.count;
  }
}

hostSeats<ToWebhookWorker, FromWebhookWorker>(self, (main) => new WebhookSeat(main));
