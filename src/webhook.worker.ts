// Thread entry: the sender of one webhook connector. Wires the delivery to the main thread, which keeps its
// record and its log; everything else is in sink/webhook.

import { PassingBytes } from "./change/passing-bytes.ts";
import { threadPulse } from "./measure/thread-pulse.ts";
import { checkpointStore, MainThread } from "./runtime/main-thread.ts";
import type { FromWebhookWorker, ToWebhookWorker } from "./runtime/messages.ts";
import { AttemptCounter } from "./sink/webhook/attempt-counter.ts";
import { configuredSink } from "./sink/webhook/configured-sink.ts";
import { AddressResolver, egressPolicy } from "./sink/webhook/egress.ts";
import { ConnectionPool } from "./sink/webhook/http/connection-pool.ts";
import { LineServer } from "./sink/webhook/line-server.ts";
import { Pacer } from "./sink/webhook/pacer.ts";
import { createSender } from "./sink/webhook/sender.ts";
import { sleep } from "./sink/webhook/sleep.ts";
import { WebhookDelivery } from "./sink/webhook/webhook-delivery.ts";

declare const self: Worker;

const attemptsIntervalMs = 500;
/** Of small objects, at about. Where a request is one row they come to 100 MB before the collector looks. */
const leftByRequestBytes = 3 * 1024;

let server: LineServer | null = null;

const post = (message: FromWebhookWorker) => self.postMessage(message);
const main = new MainThread<FromWebhookWorker>(post);

const store = checkpointStore(main);

function start({ connector, line }: Extract<ToWebhookWorker, { type: "start" }>): void {
  const config = configuredSink(connector);
  const monotonic = () => performance.now();
  const attempt = createSender(config, {
    egress: { resolver: new AddressResolver(egressPolicy(process.env)), pool: new ConnectionPool() },
    pacer: new Pacer({
      maxRequestsPerSecond: config.rate_limit.max_requests_per_second,
      maxBytesPerSecond: config.rate_limit.max_bytes_per_second,
    }),
    now: Date.now,
    monotonic,
    sleep,
    attempted: countAttempts(),
  });
  const log = (level: "info" | "warn", message: string, fields: Readonly<Record<string, string>>) =>
    post({ type: "log", level, message, fields });
  const tools = { attempt, store, log, monotonic, sleep, random: Math.random };
  server = new LineServer(line, (send) => new WebhookDelivery(connector, tools, send));
}

/** Tells the main thread what came of requests, at most about twice a second, and has what they leave behind collected. */
function countAttempts(): (result: string, bytes: number) => void {
  const passing = new PassingBytes();
  const attempts = new AttemptCounter();
  let told = 0;
  setInterval(() => {
    if (attempts.count !== told) post({ type: "attempts", ...attempts.counts() });
    told = attempts.count;
  }, attemptsIntervalMs);
  return (result, bytes) => {
    attempts.note(result, bytes);
    passing.note(leftByRequestBytes);
  };
}

async function stop(): Promise<void> {
  await server?.close();
  process.exit(0);
}

self.onmessage = (event: MessageEvent<ToWebhookWorker>) => {
  const message = event.data;
  switch (message.type) {
    case "start":
      return start(message);
    case "stop":
      return void stop();
    case "reply":
      return main.settle(message);
    default:
      message satisfies never;
  }
};

threadPulse(
  (loopDelayMs) => post({ type: "pulse", loopDelayMs }),
  () => performance.now(),
);
post({ type: "ready" });
