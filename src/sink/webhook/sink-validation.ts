// Validates a webhook sink: name, port, TLS, and one POST of `[]` with all that is configured. A receiver should take an empty list as
// no rows.

import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { bounded } from "../../concurrency/until-aborted.ts";
import { AddressResolver, egressPolicy } from "../../connection/egress.ts";
import { type Finding, config as setting, ValidationLog } from "../../connection/validation-log.ts";
import type { WebhookSinkConfig } from "../../connector/config/sink-config.ts";
import type { ValidateEvent } from "../../connector/validation.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { uuidV7 } from "../format/idempotency-key.ts";
import { ConnectionPool } from "../http/connection-pool.ts";
import { portOf } from "../http/endpoint.ts";
import { failureCode } from "../http/failure-code.ts";
import { type RequestResult, RequestTarget, sendRequest } from "../http/send-request.ts";
import { StopList } from "../http/stop-list.ts";
import { compress } from "./compression.ts";
import { attemptHeaders, requestHeaders } from "./request-headers.ts";
import { responseVerdict } from "./response-verdict.ts";
import { targetUrl } from "./target-url.ts";

/** Since the beginning: a validation answers within 10 s, whatever does not answer it. */
const dueMs = { port: 4_000, tls: 6_000, answer: 9_000 };
const passed: Finding = { type: "passed" };
/** Stands for a source table in the address and the headers. */
const sample = { schema: "public", table: "validation" } as const;

/**
 * The events of one validation: the tests in their fixed order, then `success` or `failed`. After a failure
 * the rest are skipped. It resolves whatever it finds; only the signal makes it throw, with its reason.
 */
export async function validateWebhookSink(
  sink: WebhookSinkConfig,
  signal: AbortSignal,
): Promise<ValidateEvent[]> {
  const log = new ValidationLog();
  const began = performance.now();
  const until = (ms: number) => Math.max(1, Math.ceil(ms - (performance.now() - began)));
  const by = (ms: number) => AbortSignal.any([signal, AbortSignal.timeout(until(ms))]);
  const port = { signal, limit: by(dueMs.port) };
  const resolver = new AddressResolver(egressPolicy(process.env));
  const url = parseUrl(targetUrlOrBase(sink));
  const dns = url ? await resolveName(url, resolver, port) : { finding: invalidUrl, addresses: [] };
  log.record({ Network: { subtype: "DnsResolution" } }, dns.finding);
  const address = dns.addresses[0] ?? "";
  const reached = url && log.failure === null ? await reach(url, dns.addresses, port) : { finding: passed };
  log.record({ Network: { subtype: "Reachability" } }, reached.finding);
  const tls =
    url && log.failure === null
      ? await checkTls(url, reached.address ?? address, { signal, limit: by(dueMs.tls) })
      : passed;
  log.record({ TLS: {} }, tls);
  const answer = log.failure === null ? await tryPost(sink, resolver, signal, until(dueMs.answer)) : null;
  log.record({ Connection: {} }, answer ? connectionFinding(answer) : passed);
  log.record({ Authentication: {} }, answer ? authenticationFinding(answer) : passed);
  log.record(
    setting("Delivery", "The receiver takes a POST of an empty list with the configured headers."),
    answer ? deliveryFinding(answer) : passed,
  );
  return log.finish();
}

const invalidUrl: Finding = {
  type: "failed",
  reason: "The url, with path_template, is not a valid address.",
};

function parseUrl(text: string): URL | null {
  return URL.canParse(text) ? new URL(text) : null;
}

function targetUrlOrBase(sink: WebhookSinkConfig): string {
  if (!URL.canParse(sink.url)) return sink.url;
  return targetUrl(sink.url, sink.path_template, sample.schema, sample.table);
}

interface Resolution {
  readonly finding: Finding;
  readonly addresses: readonly string[];
}

/** `limit` fires with `signal`, and when the time is over. */
interface Bounds {
  readonly signal: AbortSignal;
  readonly limit: AbortSignal;
}

async function resolveName(
  url: URL,
  resolver: AddressResolver,
  { signal, limit }: Bounds,
): Promise<Resolution> {
  try {
    const addresses = await bounded(limit, () => resolver.addresses(url.hostname));
    const count = `${addresses.length} address${addresses.length === 1 ? "" : "es"}`;
    return { finding: { type: "passed", message: count }, addresses };
  } catch (error) {
    signal.throwIfAborted();
    const reason = error instanceof MillraceError ? error.message : "The host name does not resolve.";
    return { finding: { type: "failed", reason }, addresses: [] };
  }
}

async function reach(
  url: URL,
  addresses: readonly string[],
  { signal, limit }: Bounds,
): Promise<{ readonly finding: Finding; readonly address?: string }> {
  let code = "no address";
  for (const address of addresses) {
    try {
      await opened(limit, "connect", () => connectTcp(portOf(url), address));
      return { finding: passed, address };
    } catch (error) {
      signal.throwIfAborted();
      code = failureCode(error);
    }
  }
  const reason = `No connection to port ${portOf(url)}: ${code}. Is the receiver running and reachable from here?`;
  return { finding: { type: "failed", reason } };
}

async function checkTls(url: URL, address: string, { signal, limit }: Bounds): Promise<Finding> {
  if (url.protocol !== "https:") {
    return { type: "skipped", reason: "The url is http: rows travel unencrypted." };
  }
  const host = url.hostname.replace(/^\[|\]$/g, "");
  try {
    const name = host === address ? {} : { servername: host };
    await opened(limit, "secureConnect", () => connectTls({ host: address, port: portOf(url), ...name }));
    return passed;
  } catch (error) {
    signal.throwIfAborted();
    if (limit.aborted) return { type: "warned", message: "The receiver did not answer the TLS handshake." };
    return { type: "failed", reason: `The TLS handshake failed: ${failureCode(error)}.` };
  }
}

async function tryPost(
  sink: WebhookSinkConfig,
  resolver: AddressResolver,
  signal: AbortSignal,
  timeoutMs: number,
): Promise<RequestResult> {
  const json = new TextEncoder().encode("[]");
  const nowMs = Date.now();
  const idempotencyKey = uuidV7(nowMs, crypto.getRandomValues(new Uint8Array(10)));
  using pool = new ConnectionPool();
  const result = await sendRequest({
    target: new RequestTarget(targetUrlOrBase(sink), requestHeaders(sink, sample)),
    headers: attemptHeaders(sink, { idempotencyKey, body: json, nowMs }),
    body: await compress(sink.compression, json, signal),
    egress: { resolver, pool },
    stops: new StopList(signal, Math.min(sink.request_timeout_ms, timeoutMs)),
  });
  signal.throwIfAborted();
  return result;
}

function connectionFinding(result: RequestResult): Finding {
  switch (result.kind) {
    case "answered":
      return passed;
    case "failed":
      return { type: "warned", message: `The receiver did not answer: ${result.reason}.` };
    case "refused":
      return { type: "failed", reason: result.error.message };
    default:
      return result satisfies never;
  }
}

function authenticationFinding(result: RequestResult): Finding {
  if (result.kind !== "answered") return { type: "skipped", reason: "There was no answer." };
  if (result.status === 401 || result.status === 403) {
    return { type: "failed", reason: `The receiver answered ${result.status}: check auth and headers.` };
  }
  return passed;
}

function deliveryFinding(result: RequestResult): Finding {
  if (result.kind !== "answered") return { type: "skipped", reason: "There was no answer." };
  if (responseVerdict(result.status) === "delivered") return passed;
  const answer = `The receiver answered ${result.status} to an empty list`;
  if (result.status >= 300 && result.status < 400) {
    return {
      type: "failed",
      reason: `${answer}. Redirects are not followed: set url to the address that it names.`,
    };
  }
  const message =
    responseVerdict(result.status) === "rejected"
      ? `${answer}. A change that it answers so stops the connector: check url.`
      : `${answer}.`;
  return { type: "warned", message };
}

/** Opens a socket, waits for `event`, and closes it again. Throws what keeps it from opening in time. */
async function opened(limit: AbortSignal, event: string, open: () => Socket): Promise<void> {
  const socket = open();
  try {
    await bounded(limit, () => {
      return new Promise<void>((resolve, reject) => {
        socket.once(event, () => resolve());
        socket.once("error", reject);
      });
    });
  } finally {
    socket.on("error", () => undefined);
    socket.destroy();
  }
}
