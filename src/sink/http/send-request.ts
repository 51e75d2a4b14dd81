// One request over HTTP, bounded in time and in what is read of the answer. It is sent to an address that was checked. The name is used for
// the Host header and the TLS handshake alone.

import type { AddressResolver } from "../../connection/egress.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { RequestBody } from "../format/values/message-body.ts";
import { type Answer, type HttpConnection, NoAnswer, notHttp } from "./connection.ts";
import type { ConnectionPool } from "./connection-pool.ts";
import { type Endpoint, endpointOf } from "./endpoint.ts";
import { failureCode } from "./failure-code.ts";
import { failureWords } from "./failure-words.ts";
import { requestHead, requestStart } from "./request-head.ts";
import { type RequestStop, type StopList, TimedOut } from "./stop-list.ts";

export interface HttpRequest {
  readonly target: RequestTarget;
  /** Those of this attempt, in addition to the target's. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: RequestBody;
  readonly egress: Egress;
  readonly stops: StopList;
}

/** What requests are sent through. */
export interface Egress {
  readonly resolver: AddressResolver;
  readonly pool: ConnectionPool;
}

export interface TargetOptions {
  /** Left out: POST. */
  readonly method?: "GET" | "POST";
  /** Certificates. Targets that differ in them share no pool. */
  readonly tls?: Bun.TLSOptions;
  /** So much of each answer's body is read. Left out: the beginning of those that are no 2xx, for people. */
  readonly answerBytes?: number;
}

/** A name may have other addresses each time it is looked up. */
const mostEndpoints = 16;

/** Where requests go, with the head that all of them share. */
export class RequestTarget {
  readonly #url: URL;
  readonly hostname: string;
  /** What each request's head begins with. */
  readonly start: string;
  readonly #endpoints = new Map<string, Endpoint>();

  constructor(
    url: string,
    headers: Readonly<Record<string, string>>,
    private readonly options: TargetOptions = {},
  ) {
    this.#url = new URL(url);
    this.hostname = this.#url.hostname;
    this.start = requestStart(this.#url, headers, options.method);
  }

  /** Host and port, for people. */
  get place(): string {
    const { host, port, protocol } = this.#url;
    return port === "" ? `${host}:${protocol === "https:" ? 443 : 80}` : host;
  }

  get answerBytes(): number {
    return this.options.answerBytes ?? 0;
  }

  /** The checked address in place of the host. TLS still asks for, and checks, the name. */
  at(address: string): Endpoint {
    const known = this.#endpoints.get(address);
    if (known) return known;
    const endpoint = endpointOf(this.#url, address, this.options.tls);
    const [oldest] = this.#endpoints.keys();
    if (oldest !== undefined && this.#endpoints.size >= mostEndpoints) this.#endpoints.delete(oldest);
    this.#endpoints.set(address, endpoint);
    return endpoint;
  }
}

export type RequestResult =
  /** `isResent`: it went out before, over a connection that ended without an answer, and may have arrived then. */
  | ({ readonly kind: "answered"; readonly isResent: boolean } & Answer)
  /** No answer; `code`: the system's error code. */
  | { readonly kind: "failed"; readonly reason: string; readonly code: string }
  /** Requests are not sent to this address. */
  | { readonly kind: "refused"; readonly error: MillraceError };

/** Nothing was sent yet: another address of the same host may be tried at once. */
const connectFailures: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
]);

/** A request on its way. */
interface Sending {
  readonly request: HttpRequest;
  readonly stop: RequestStop;
  /** As `RequestResult`. */
  isResent: boolean;
}

/** Never throws: a signal that is aborted ends it as `failed`. */
export async function sendRequest(request: HttpRequest): Promise<RequestResult> {
  const { stops, target } = request;
  const { resolver } = request.egress;
  const stop = stops.begin();
  const sending: Sending = { request, stop, isResent: false };
  try {
    const host = target.hostname;
    const addresses = resolver.known(host) ?? (await stop.race(resolver.addresses(host)));
    let failure: RequestResult | null = null;
    for (const address of addresses) {
      const result = await postTo(address, sending);
      if (result.kind !== "failed" || !connectFailures.has(result.code)) return result;
      failure = result;
    }
    return failure ?? { kind: "failed", reason: "no address to connect to", code: "" };
  } catch (error) {
    if (error instanceof MillraceError) return { kind: "refused", error };
    return failed(error, request);
  } finally {
    stops.end(stop);
  }
}

async function postTo(address: string, sending: Sending): Promise<RequestResult> {
  const { request } = sending;
  const { target } = request;
  const { resolver } = request.egress;
  try {
    const answer = await exchange(target.at(address), sending);
    resolver.worked(target.hostname, address);
    return { kind: "answered", isResent: sending.isResent, ...answer };
  } catch (error) {
    // Otherwise an address that swallows what it is sent would be tried first each time.
    resolver.didNotWork(target.hostname, address);
    return failed(error, request);
  }
}

/**
 * Uses an idle connection, or a new one. A receiver may close an idle connection just as it is used. Then the request is sent again over
 * a new one, though the receiver may have taken it from the first.
 */
async function exchange(endpoint: Endpoint, sending: Sending): Promise<Answer> {
  const { request, stop } = sending;
  const { target, headers, body, egress } = request;
  const { pool } = egress;
  const head = requestHead(target.start, headers, body.length);
  const exchangeOn = async (connection: HttpConnection) => {
    const answer = connection.exchange(head, body, target.answerBytes);
    stop.onStop((reason) => connection.stop(reason));
    try {
      return await answer;
    } finally {
      stop.onStop(null);
      pool.give(connection);
    }
  };
  const waiting = pool.take(endpoint);
  if (waiting) {
    try {
      return await exchangeOn(waiting);
    } catch (error) {
      if (error instanceof TimedOut) pool.closeIdleTo(endpoint);
      if (!(error instanceof NoAnswer && error.isStale)) throw error;
      sending.isResent = true;
    }
  }
  return await exchangeOn(await opened(endpoint, pool, stop));
}

async function opened(endpoint: Endpoint, pool: ConnectionPool, stop: RequestStop): Promise<HttpConnection> {
  const connection = pool.open(endpoint);
  try {
    await stop.race(connection.opened);
    return connection;
  } catch (error) {
    pool.leave(connection);
    throw error;
  }
}

function failed(error: unknown, { stops, target }: HttpRequest): RequestResult {
  if (error instanceof TimedOut) {
    return { kind: "failed", reason: `no answer within ${stops.timeoutMs} ms`, code: "ETIMEDOUT" };
  }
  const code = failureCode(error);
  const reason =
    code === notHttp ? "the answer is not HTTP/1, or has too large a head" : failureWords(code, target.place);
  return { kind: "failed", reason, code };
}
