// Sends alerts one after the other, through the HTTP client of webhook sinks. They wait in memory, so that nobody waits
// for the receiver; what waits when the service ends is lost.

import type { Log } from "../log.ts";
import { decideRetry, type RetryPolicy } from "../sink/delivery/order/backoff.ts";
import { uuidV7 } from "../sink/format/idempotency-key.ts";
import { type Egress, type RequestResult, RequestTarget, sendRequest } from "../sink/http/send-request.ts";
import { StopList } from "../sink/http/stop-list.ts";
import { responseVerdict, retryAfterMs } from "../sink/webhook/response-verdict.ts";
import { sign, signingKey } from "../sink/webhook/signing.ts";
import { type Alert, alertBody } from "./alert.ts";
import type { AlertSettings } from "./alert-settings.ts";

export interface AlertSenderTools {
  readonly egress: Egress;
  readonly log: Pick<Log, "info" | "warn" | "error">;
  /** Milliseconds since 1970-01-01 UTC. */
  readonly now: () => number;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly random: () => number;
}

/** More would be a day of everything failing. Beyond it the oldest are dropped. */
const maxWaiting = 1_000;
const requestTimeoutMs = 10_000;
/** Nobody acts on an alert that is older. */
const retry: RetryPolicy = {
  maxRetries: 0,
  maxRetryDurationMs: 24 * 3_600_000,
  initialBackoffMs: 1_000,
  maxBackoffMs: 60_000,
};
/** How long the stop of the service waits for the alerts that it has. */
const closeMs = 1_000;

interface Waiting {
  readonly alert: Alert;
  /** The same for each attempt, so that a receiver can tell a repetition. */
  readonly id: string;
}

type Outcome =
  | { readonly kind: "delivered" }
  | { readonly kind: "retry"; readonly reason: string; readonly retryAfterMs: number }
  | { readonly kind: "rejected"; readonly reason: string };

export class AlertSender implements AsyncDisposable {
  readonly #waiting: Waiting[] = [];
  readonly #target: RequestTarget;
  readonly #key: Buffer | null;
  readonly #stop = new AbortController();
  readonly #stops = new StopList(this.#stop.signal, requestTimeoutMs);
  #sending: Promise<void> | null = null;
  /** The receiver is away, and the log says so. */
  #isAway = false;

  constructor(
    settings: AlertSettings,
    private readonly tools: AlertSenderTools,
  ) {
    const headers = { "user-agent": "millrace", accept: "*/*", "content-type": "application/json" };
    this.#target = new RequestTarget(settings.url, headers);
    this.#key = settings.secret === null ? null : signingKey(settings.secret);
  }

  /** Returns at once. */
  send(alert: Alert): void {
    const random = crypto.getRandomValues(new Uint8Array(10));
    this.#waiting.push({ alert, id: `msg_${uuidV7(this.tools.now(), random)}` });
    // The first one may be on its way.
    const [dropped] = this.#waiting.length > maxWaiting ? this.#waiting.splice(1, 1) : [];
    if (dropped) this.#logLost(dropped.alert, "too many alerts wait");
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null;
    });
  }

  /** Waits for a moment until all is sent, if the receiver is there. */
  async [Symbol.asyncDispose](): Promise<void> {
    const stop = () => this.#stop.abort(new Error("stopped"));
    const timer = setTimeout(stop, this.#isAway ? 0 : closeMs);
    await this.#sending;
    clearTimeout(timer);
    stop();
    if (this.#waiting.length > 0) {
      this.tools.log.warn({ waiting: this.#waiting.length }, "alerts that did not get through are lost");
    }
  }

  async #sendAll(): Promise<void> {
    for (let [next] = this.#waiting; next; [next] = this.#waiting) {
      try {
        await this.#sendOne(next);
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.tools.log.error({ error }, "a fault in the sending of an alert");
      }
      const at = this.#waiting.indexOf(next);
      if (at >= 0) this.#waiting.splice(at, 1);
    }
  }

  /** Until it is delivered, rejected, or too old. Throws the stop's reason. */
  async #sendOne({ alert, id }: Waiting): Promise<void> {
    const { monotonic, random, sleep, now } = this.tools;
    const body = alertBody(alert);
    let firstFailureMs: number | null = null;
    for (let attempts = 1; ; attempts++) {
      const outcome = await this.#attempt(id, body, now());
      if (outcome.kind === "delivered") return this.#arrived();
      if (outcome.kind === "rejected") return this.#logLost(alert, outcome.reason);
      firstFailureMs ??= monotonic();
      const decision = decideRetry(retry, {
        ...{ attempts, random: random(), retryAfterMs: outcome.retryAfterMs },
        elapsedMs: monotonic() - firstFailureMs,
      });
      if (decision.kind === "exhausted") return this.#logLost(alert, outcome.reason);
      this.#logAway(outcome.reason);
      await sleep(decision.delayMs, this.#stop.signal);
    }
  }

  async #attempt(id: string, body: Uint8Array<ArrayBuffer>, nowMs: number): Promise<Outcome> {
    const { egress } = this.tools;
    const headers = this.#key ? { ...sign(this.#key, id, body, nowMs) } : { "webhook-id": id };
    const result = await sendRequest({ target: this.#target, headers, body, egress, stops: this.#stops });
    this.#stop.signal.throwIfAborted();
    return outcomeOf(result, nowMs);
  }

  #arrived(): void {
    if (this.#isAway) this.tools.log.info({ host: this.#target.hostname }, "alerts get through again");
    this.#isAway = false;
  }

  #logAway(reason: string): void {
    if (!this.#isAway) {
      this.tools.log.warn({ host: this.#target.hostname, reason }, "alerts do not get through; they wait");
    }
    this.#isAway = true;
  }

  #logLost({ type, data }: Alert, reason: string): void {
    const connector = data.connector_id === undefined ? {} : { connector: data.connector_id };
    const facts = { host: this.#target.hostname, type, ...connector, reason };
    this.tools.log.error(facts, "an alert is lost");
  }
}

function outcomeOf(result: RequestResult, nowMs: number): Outcome {
  switch (result.kind) {
    case "failed":
      return { kind: "retry", reason: result.reason, retryAfterMs: 0 };
    case "refused":
      return { kind: "rejected", reason: result.error.message };
    case "answered": {
      const verdict = responseVerdict(result.status);
      const reason = `the receiver answered ${result.status}`;
      if (verdict !== "retry") return { kind: verdict, reason };
      return { kind: "retry", reason, retryAfterMs: retryAfterMs(result.retryAfter, nowMs) };
    }
    default:
      return result satisfies never;
  }
}
