// One attempt at one request: compress, pace, send, read the answer. The scheduler decides whether and when there is another attempt.

import type { WebhookSinkConfig } from "../../connector/config/sink-config.ts";
import type { AttemptNote } from "../../connector/parking.ts";
import { saying } from "../../errors/answer-in-reason.ts";
import { MillraceError, type RefusedTable } from "../../errors/millrace-error.ts";
import { type Attempt, describeRequest } from "../delivery/order/attempt.ts";
import type { OutgoingRequest } from "../delivery/stream/outgoing-request.ts";
import { tableKey } from "../delivery/table-key.ts";
import { type RequestBody, releaseBody } from "../format/values/message-body.ts";
import { type Egress, RequestTarget, sendRequest } from "../http/send-request.ts";
import { StopList } from "../http/stop-list.ts";
import { type AnswerText, answerText } from "./answer-text.ts";
import { compress } from "./compression.ts";
import type { RateLimiter } from "./rate-limiter.ts";
import { attemptHeaders, requestHeaders } from "./request-headers.ts";
import { requestSecrets } from "./request-secrets.ts";
import { responseVerdict, retryAfterMs, statusName } from "./response-verdict.ts";
import { targetUrl } from "./target-url.ts";

export interface SenderTools {
  readonly egress: Egress;
  readonly rateLimiter: RateLimiter;
  /** Milliseconds since 1970-01-01 UTC. */
  readonly now: () => number;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  /**
   * Called for each attempt with its status, or the system's error code without an answer, and the bytes of its body, as sent and before
   * compression.
   */
  readonly attempted: (result: string, bytes: number, uncompressedBytes: number) => void;
}

export function createSender(config: WebhookSinkConfig, tools: SenderTools): Attempt {
  const targets = new Map<string, RequestTarget>();
  const bodies = new WeakMap<OutgoingRequest, RequestBody>();

  const secrets = requestSecrets(config);

  // The stream and the retries of what is parked have a signal each, and take turns.
  const stops = new WeakMap<AbortSignal, StopList>();
  const stopList = (signal: AbortSignal): StopList => {
    let found = stops.get(signal);
    if (!found) {
      found = new StopList(signal, config.request_timeout_ms);
      stops.set(signal, found);
    }
    return found;
  };

  /** Throws as `targetUrl`. */
  const tableTarget = ({ schema, table }: OutgoingRequest): RequestTarget => {
    const name = tableKey(schema, table);
    let found = targets.get(name);
    if (!found) {
      const url = targetUrl(config.url, config.path_template, schema, table);
      found = new RequestTarget(url, requestHeaders(config, { schema, table }));
      targets.set(name, found);
    }
    return found;
  };

  const wireBody = async (request: OutgoingRequest, signal: AbortSignal): Promise<RequestBody> => {
    let body = bodies.get(request);
    if (!body) {
      body = await compress(config.compression, request.body, signal);
      bodies.set(request, body);
    }
    return body;
  };

  return async (request, signal) => {
    let target: RequestTarget;
    try {
      target = tableTarget(request);
    } catch (error) {
      if (error instanceof MillraceError) return { kind: "rejected", error: refusal(request, error) };
      throw error;
    }
    const body = config.compression === "None" ? request.body : await wireBody(request, signal);
    const wait = tools.rateLimiter.delayMs(body.length, tools.monotonic());
    if (wait > 0) await tools.sleep(wait, signal);
    signal.throwIfAborted();
    const { idempotencyKey } = request;
    const headers = attemptHeaders(config, { idempotencyKey, body: request.body, nowMs: tools.now() });
    const result = await sendRequest({
      target,
      headers,
      body,
      egress: tools.egress,
      stops: stopList(signal),
    });
    if (result.kind === "failed") {
      signal.throwIfAborted();
      tools.attempted(result.code || "unknown", body.length, request.body.length);
      const reason = `${result.reason} (rows of ${request.schema}.${request.table})`;
      const note = { at: timeOf(tools), error: result.reason };
      return { kind: "retry", reason, retryAfterMs: 0, note };
    }
    if (result.kind === "refused") return { kind: "rejected", error: refusal(request, result.error) };
    tools.attempted(statusName(result.status), body.length, request.body.length);
    switch (responseVerdict(result.status)) {
      case "delivered":
        if (body !== request.body) releaseBody(body);
        return { kind: "delivered", status: result.status };
      case "retry": {
        const answer = await answerText(result.body, secrets);
        const said = saying(answer?.short ?? null);
        const reason = `the receiver answered ${result.status} to rows of ${request.schema}.${request.table}${said}`;
        const note = noteOf(tools, result.status, answer);
        return { kind: "retry", reason, retryAfterMs: retryAfterMs(result.retryAfter, tools.now()), note };
      }
      case "rejected": {
        const answer = await answerText(result.body, secrets);
        const error = rejection(request, result.status, answer?.short ?? null);
        const note = noteOf(tools, result.status, answer);
        return { kind: "rejected", error, note, isUncertain: result.isResent };
      }
    }
  };
}

type Clock = Pick<SenderTools, "now">;

const timeOf = ({ now }: Clock) => new Date(now()).toISOString();

function noteOf(clock: Clock, status: number, answer: AnswerText | null): AttemptNote {
  return { at: timeOf(clock), status, ...(answer ? { answer: answer.kept } : {}) };
}

/** The error that stops the run. It names the request so that it can be found at the receiver. It contains no row, but for what `said` has. */
function rejection(request: OutgoingRequest, status: number, said: string | null): MillraceError {
  const redirect = status >= 300 && status < 400 ? "; redirects are not followed" : "";
  return new MillraceError(
    "webhook_rejected",
    `the receiver answered ${status} to ${describeRequest(request)}${redirect}${saying(said)}. Mend the receiver or the ` +
      "connector's configuration, then start the connector again: it goes on with this request",
    { table: tableOf(request) },
  );
}

function tableOf({ schema, table: name }: OutgoingRequest): RefusedTable {
  return { schema, name, commands: [] };
}

/** Nothing was sent. The request is named all the same, to tell where the connector stands. */
function refusal(request: OutgoingRequest, { code, message }: MillraceError): MillraceError {
  return new MillraceError(code, `${message}. Not sent: ${describeRequest(request)}`);
}
