// Sends alerts one after the other, through the HTTP client of webhook sinks. They wait in memory, so that nobody waits
// for the receiver; what waits when the service ends is lost. Those of one connector keep their order.

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
/** An alert that the receiver has answered so often with a failure waits behind those of other connectors: it may be the cause. */
const mostAnswers = 3;
/** How long the stop of the service waits for the alerts that it has. */
const closeMs = 1_000;

interface Waiting {
  readonly alert: Alert;
  /** The same for each attempt, so that a receiver can tell a repetition. */
  readonly id: string;
  /** When its first attempt failed, by the monotonic clock. */
  firstFailureMs: number | null;
  /** Failures that the receiver has answered it with. */
  answers: number;
}

type Outcome =
  | { readonly kind: "delivered" }
  /** `isAnswer`: the receiver has answered, and asks for no patience, so it may be this alert that it cannot take. */
  | {
      readonly kind: "retry";
      readonly reason: string;
      readonly retryAfterMs: number;
      readonly isAnswer: boolean;
    }
  | { readonly kind: "rejected"; readonly reason: string };

export class AlertSender implements AsyncDisposable {
  readonly #waiting: Waiting[] = [];
  readonly #target: RequestTarget;
  readonly #key: Buffer | null;
  readonly #stop = new AbortController();
  readonly #stops = new StopList(this.#stop.signal, requestTimeoutMs);
  #sending: Promise<void> | null = null;
  #underWay: Waiting | null = null;
  /** Attempts that failed since one got through, of whichever alert. */
  #failures = 0;
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
    const id = `msg_${uuidV7(this.tools.now(), random)}`;
    this.#waiting.push({ alert, id, firstFailureMs: null, answers: 0 });
    if (this.#waiting.length > maxWaiting) {
      const oldest = this.#waiting[0] === this.#underWay ? 1 : 0;
      for (const { alert } of this.#waiting.splice(oldest, 1)) this.#logLost(alert, "too many alerts wait");
    }
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
    for (let next = this.#next(); next; next = this.#next()) {
      try {
        await this.#sendOnce(next);
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.tools.log.error({ error }, "a fault in the sending of an alert");
        this.#remove(next);
      }
    }
  }

  /** The oldest alert of some connector: one that has waited through fewer rounds of `mostAnswers` failures goes first. */
  #next(): Waiting | undefined {
    const oldest = new Map<string | undefined, Waiting>();
    for (const each of this.#waiting) {
      const { connector_id: connector } = each.alert.data;
      if (!oldest.has(connector)) oldest.set(connector, each);
    }
    const rounds = ({ answers }: Waiting) => Math.floor(answers / mostAnswers);
    return [...oldest.values()].sort((one, other) => rounds(one) - rounds(other))[0];
  }

  #remove(sent: Waiting): void {
    const at = this.#waiting.indexOf(sent);
    if (at >= 0) this.#waiting.splice(at, 1);
  }

  /** After a failure it waits until another attempt may be made, of this alert or another one. Throws the stop's reason. */
  async #sendOnce(next: Waiting): Promise<void> {
    const { monotonic, random, sleep, now } = this.tools;
    this.#underWay = next;
    const outcome = await this.#attempt(next.id, alertBody(next.alert), now());
    this.#underWay = null;
    if (outcome.kind !== "retry") {
      this.#remove(next);
      this.#failures = 0;
      return outcome.kind === "delivered" ? this.#arrived() : this.#logLost(next.alert, outcome.reason);
    }
    next.firstFailureMs ??= monotonic();
    const decision = decideRetry(retry, {
      attempts: ++this.#failures,
      random: random(),
      retryAfterMs: outcome.retryAfterMs,
      elapsedMs: monotonic() - next.firstFailureMs,
    });
    if (decision.kind === "exhausted") {
      this.#remove(next);
      return this.#logLost(next.alert, outcome.reason);
    }
    if (outcome.isAnswer && ++next.answers >= mostAnswers) this.#logBehind(next, outcome.reason);
    else this.#logAway(outcome.reason);
    await sleep(decision.delayMs, this.#stop.signal);
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

  #logBehind({ alert, answers }: Waiting, reason: string): void {
    if (answers > mostAnswers) return;
    this.tools.log.warn(
      { ...this.#factsOf(alert), reason },
      "an alert waits behind those of other connectors",
    );
  }

  #logLost(alert: Alert, reason: string): void {
    this.tools.log.error({ ...this.#factsOf(alert), reason }, "an alert is lost");
  }

  #factsOf({ type, data }: Alert) {
    const connector = data.connector_id === undefined ? {} : { connector: data.connector_id };
    return { host: this.#target.hostname, type, ...connector };
  }
}

function outcomeOf(result: RequestResult, nowMs: number): Outcome {
  switch (result.kind) {
    case "failed":
      return { kind: "retry", reason: result.reason, retryAfterMs: 0, isAnswer: false };
    case "refused":
      return { kind: "rejected", reason: result.error.message };
    case "answered": {
      const verdict = responseVerdict(result.status);
      const reason = `the receiver answered ${result.status}`;
      if (verdict !== "retry") return { kind: verdict, reason };
      const isAnswer = result.status !== 429 && result.status !== 503;
      return { kind: "retry", reason, retryAfterMs: retryAfterMs(result.retryAfter, nowMs), isAnswer };
    }
    default:
      return result satisfies never;
  }
}
